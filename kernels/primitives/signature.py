"""The signature of tensors: all that a launch can depend on except numbers and addresses."""

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from kernels.device.determinism import wants_same_bits

MOST_SIGNATURES = 1024
"""Signatures that are kept. After as many, all are forgotten: a caller may never repeat a shape or scale."""
ALIGNMENT = 16
"""Bytes. Triton compiles another kernel for an address that is not a multiple of it."""

Signature = tuple[Hashable, ...]

_PLAIN_TYPES = frozenset({Tensor, torch.nn.Parameter})
_plain_keys: set[int] = set()
"""Dispatch keys seen of tensors that are nothing but memory."""
_keys_of = torch._C._dispatch_keys


def signature_of(tensors: Sequence[Tensor | None]) -> Signature | None:
    """All that a launch can depend on except numbers and addresses.

    None if a tensor is not plain memory: a subclass, a tracer, sparse, meta, a view that is to be negated.
    """
    parts: list[Hashable] = [torch.are_deterministic_algorithms_enabled(), wants_same_bits()]
    for tensor in tensors:
        if tensor is None:
            parts.append(None)
        elif type(tensor) in _PLAIN_TYPES and (
            _keys_of(tensor).raw_repr() in _plain_keys or _is_plain(tensor)
        ):
            misaligned = tensor.data_ptr() % ALIGNMENT
            parts.append((tensor.shape, tensor.stride(), tensor.dtype, tensor.device, misaligned))
        else:
            return None
    return tuple(parts)


def _is_plain(tensor: Tensor) -> bool:
    """Whether torch dispatches on the tensor as on an empty one of its device; remembered."""
    if tensor.device.type not in ("cpu", "cuda"):
        return False
    keys = _keys_of(tensor).raw_repr()
    for inference in (False, True):  # a tensor made in inference mode has fewer keys
        with torch.inference_mode(inference):
            if keys == _keys_of(torch.empty(0, device=tensor.device)).raw_repr():
                _plain_keys.add(keys)
                return True
    return False


def is_traced() -> bool:
    """Whether a compiler, a tracer, a mode or a transform of torch.func takes part in torch's calls."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


_caches: list[dict[Hashable, Any]] = []


def signature_cache() -> dict[Hashable, Any]:
    """A dict for what follows from a signature, which `forget` clears."""
    cache: dict[Hashable, Any] = {}
    _caches.append(cache)
    return cache


def remember(cache: dict[Hashable, Any], key: Hashable, value: Any) -> None:
    """Put a value into a cache, which is emptied first if it holds MOST_SIGNATURES."""
    if len(cache) >= MOST_SIGNATURES:
        cache.clear()
    cache[key] = value


def forget() -> None:
    """Forget everything that was written down, as a change of the tuned tiles requires."""
    for cache in _caches:
        cache.clear()
