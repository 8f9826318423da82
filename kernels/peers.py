"""Implementations of attention that are measured beside each other. Importing this file imports neither torch nor triton."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernels.problem import AttentionProblem


@dataclass(frozen=True)
class Peer:
    """One implementation of attention: its label, the backends it is timed on, and what prepares a call on a problem."""

    label: str
    backends: tuple[str, ...]
    prepare: Callable[[AttentionProblem, tuple], Callable[[], object]]


def _prepare_naive(problem: AttentionProblem, inputs: tuple) -> Callable[[], object]:
    from kernels.reference import naive_attention
    from kernels.tiles import band

    left, right = band(problem)
    return lambda: naive_attention(*inputs, scale=problem.scale, left=left, right=right)


def _prepare_ours(problem: AttentionProblem, inputs: tuple) -> Callable[[], object]:
    from kernels.forward import flash_forward
    from kernels.launch import config_for_blocks
    from kernels.tiles import band

    left, right = band(problem)
    config = config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize)
    return lambda: flash_forward(*inputs, left=left, right=right, scale=problem.scale, config=config)


def _prepare_sdpa(backend: str | None) -> Callable[[AttentionProblem, tuple], Callable[[], object]]:
    def prepare(problem: AttentionProblem, inputs: tuple) -> Callable[[], object]:
        import torch.nn.functional as F
        from torch.nn.attention.bias import causal_lower_right

        arguments = {"enable_gqa": problem.q_heads != problem.kv_heads}
        if problem.is_causal and problem.q_len == problem.kv_len:
            arguments["is_causal"] = True
        elif problem.is_causal:
            arguments["attn_mask"] = causal_lower_right(problem.q_len, problem.kv_len)

        def call() -> object:
            with _sdpa_backend(backend):
                return F.scaled_dot_product_attention(*inputs, **arguments)

        return call

    return prepare


@contextmanager
def _sdpa_backend(name: str | None) -> Iterator[None]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if name is None:
        yield
    else:
        with sdpa_kernel(getattr(SDPBackend, name)):
            yield


PEERS = {
    "naive": Peer("naive (torch)", ("cuda", "interpreter"), _prepare_naive),
    "flash2": Peer("our kernel", ("cuda",), _prepare_ours),
    "sdpa": Peer("torch fused (CPU)", ("interpreter",), _prepare_sdpa(None)),
    "sdpa_flash": Peer("SDPA flash", ("cuda",), _prepare_sdpa("FLASH_ATTENTION")),
    "sdpa_cudnn": Peer("SDPA cuDNN", ("cuda",), _prepare_sdpa("CUDNN_ATTENTION")),
}
