"""How each checked kernel is called, forward and for its gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import torch

from kernels.algorithms import ALGORITHMS, runner_of
from kernels.attention.flash_attention import flash_attention
from kernels.check.cases import KERNELS, OURS, PUBLIC_CALL, USER
from kernels.check.user_kernel import UserKernelError, user_kernel
from kernels.device.runtime import BACKEND
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem, InvalidProblem

if TYPE_CHECKING:
    from kernels.measure.peers import Attention

ForwardCall = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor | None]]
"""Query, key and value to (O, lse or None)."""
GradientCall = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]
"""Query, key, value and dO to (dQ, dK, dV)."""
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Refused(Exception):
    """The kernel does not take this problem; the message is the reason that it gives."""


class Broken(Exception):
    """The kernel took the problem, but raised an error or did not return an attention output."""


@dataclass(frozen=True)
class Subject:
    """One kernel on one problem."""

    forward: ForwardCall
    gradients: GradientCall | None


def make_subject(name: str, problem: AttentionProblem) -> Subject:
    """The kernel with the problem's mask and tiles.

    Raises Refused, or UserKernelError if the user's file cannot be imported.
    """
    if BACKEND not in KERNELS[name].backends:
        accepted = ", ".join(key for key, kernel in KERNELS.items() if BACKEND in kernel.backends)
        raise InvalidProblem("kernel", name, f"expected one of {accepted} on this device")
    if name in ALGORITHMS:
        forward, gradients = _algorithm(name, problem)
    elif name == PUBLIC_CALL:
        forward, gradients = _public_call(problem)
    else:
        forward, gradients = _peer(name, problem)
    return Subject(_guarded(name, forward), _guarded(name, gradients) if KERNELS[name].gradients else None)


def _algorithm(name: str, problem: AttentionProblem) -> tuple[ForwardCall, GradientCall]:
    """An algorithm with the problem's own tiles."""
    runner = runner_of(name)
    return (
        lambda query, key, value: runner.forward(problem, query, key, value),
        lambda query, key, value, d_out: runner.gradients(problem, query, key, value, d_out),
    )


def _public_call(problem: AttentionProblem) -> tuple[ForwardCall, GradientCall]:
    window = (problem.window_left, problem.window_right) if problem.mask == "window" else None
    causal = problem.is_causal

    def forward(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return flash_attention(
            query, key, value, is_causal=causal, window=window, enable_gqa=True, return_lse=True
        )

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return flash_attention(query, key, value, is_causal=causal, window=window, enable_gqa=True)

    return forward, _by_autograd(attend)


def _peer(name: str, problem: AttentionProblem) -> tuple[ForwardCall, GradientCall]:
    if name == USER:
        user_kernel()
    try:
        attend = PEERS[name].make(problem)
    except (InvalidProblem, NotImplementedError) as error:
        raise Refused(str(error)) from error

    def forward(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, None]:
        out = attend(query, key, value)
        _check_output(out, query)
        return out.detach(), None

    return forward, _by_autograd(attend)


def _by_autograd(attend: Attention) -> GradientCall:
    def gradients(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, d_out: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        leaves = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
        out = attend(*leaves)
        if not out.requires_grad:
            raise Refused("it has no gradients: its output does not depend on Q, K and V for autograd")
        results = torch.autograd.grad(out, leaves, d_out, allow_unused=True)
        return tuple(
            torch.zeros_like(leaf) if gradient is None else gradient
            for gradient, leaf in zip(results, leaves, strict=True)
        )

    return gradients


def _check_output(out: torch.Tensor, query: torch.Tensor) -> None:
    """Raise Broken unless `out`, which may come from the user's function, is a tensor shaped as `query`."""
    if not isinstance(out, torch.Tensor):
        raise Broken(f"it returned {type(out).__name__}; expected a tensor shaped as query")
    if out.shape != query.shape or out.dtype != query.dtype:
        expected = f"expected {query.dtype} {tuple(query.shape)}, as query"
        raise Broken(f"it returned {out.dtype} {tuple(out.shape)}; {expected}")


def _guarded(name: str, call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The call, which raises Refused, Broken, or an error that ends the job.

    A lack of memory and a lost CUDA context end the job.
    """

    def guarded(*tensors: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            with _quiet():
                return call(*tensors, **options)
        except (Refused, Broken, UserKernelError, MemoryError, torch.OutOfMemoryError):
            raise
        except (InvalidProblem, NotImplementedError) as error:
            raise Refused(_words(error)) from error
        except Exception as error:  # any failure of a checked kernel is a result of its check
            if "CUDA error" in str(error) or "can't allocate memory" in str(error):
                raise
            torch_itself = name != USER and name not in OURS
            raise (
                Refused(_words(error)) if torch_itself else Broken(f"it raised {_words(error)}")
            ) from error

    return guarded


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence NumPy's warnings in the interpreter: a GPU does not warn about infinities either."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.filterwarnings("ignore", "Lower right causal bias", UserWarning)
        yield


def _words(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    text = f"{error}".strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Fill new tensors with NaN while the body runs, so that elements that no kernel wrote are noticed."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    deterministic: Any = torch.utils.deterministic  # mypy does not know the properties of this module
    filled = deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        deterministic.fill_uninitialized_memory = filled
