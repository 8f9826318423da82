"""How the user's function is called: options, layout of the tensors, and what it returns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.check.case.cases import CheckCase
from kernels.check.subject.limits import Limits
from kernels.check.subject.user_errors import Broken
from kernels.problem import InvalidProblem

if TYPE_CHECKING:
    import torch

    Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[Any, Any]]
    """Query, key and value to what the function returns: O, and the second tensor or None."""

UserFunction = Callable[..., Any]
"""A function of query, key and value, and of those options of scaled_dot_product_attention that it knows."""
CAUSAL, SCALE = ("is_causal", "causal"), ("scale", "sm_scale", "softmax_scale")
"""Names that functions give these parameters."""
ASK_FOR_MASK = "Choose a full mask, or a causal one with equal lengths; or declare which it takes (README)."


def call_arguments(
    function: UserFunction, case: CheckCase, device: str, limits: Limits | None = None
) -> dict[str, Any]:
    """Keyword arguments for the case's mask, heads and scale, as scaled_dot_product_attention takes them.

    A causal mask is `is_causal` if both lengths are the same or the file declares its alignment. Otherwise it
    is a bool `attn_mask` (q_len, kv_len), because torch aligns is_causal to the top left. A parameter of such
    a name without a default is always given. Raises InvalidProblem if the function has no such parameter.
    """
    from kernels.oracle.naive import visible_mask

    limits, problem = limits or Limits(), case.problem
    parameters = _parameters(function)
    causal, scale = _named(parameters, CAUSAL), _named(parameters, SCALE)
    wanted: dict[str, Any] = {}
    if limits.gives_is_causal(problem):
        wanted[causal] = True
    elif problem.mask == "window" and limits.window:
        wanted[limits.window] = (problem.window_left, problem.window_right)
    elif problem.mask != "full":
        wanted["attn_mask"] = visible_mask(problem.band, device=device)
    if problem.group_size > 1 and (limits.gqa is None or _takes(parameters, "enable_gqa")):
        wanted["enable_gqa"] = True
    if case.scale is not None:
        wanted[scale] = case.scale
    for name in wanted:
        if not _takes(parameters, name):
            raise InvalidProblem(
                "kernel",
                getattr(function, "__name__", "?"),
                f"it has no parameter {name}, which this problem needs",
                ASK_FOR_MASK if name == "attn_mask" else "",
            )
    always = {causal: False, scale: case.score_scale}
    return {name: value for name, value in always.items() if _required(parameters, name)} | wanted


def _parameters(function: UserFunction) -> dict[str, inspect.Parameter] | None:
    """The function's parameters by name; None if it takes any name, or does not tell."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in found.values()):
        return None
    return dict(found)


def _named(parameters: dict[str, inspect.Parameter] | None, names: tuple[str, ...]) -> str:
    return next((name for name in names if parameters and name in parameters), names[0])


def _takes(parameters: dict[str, inspect.Parameter] | None, name: str) -> bool:
    return parameters is None or name in parameters


def _required(parameters: dict[str, inspect.Parameter] | None, name: str) -> bool:
    return (
        parameters is not None and name in parameters and parameters[name].default is inspect.Parameter.empty
    )


def attend_with(function: UserFunction, limits: Limits, case: CheckCase) -> Attend:
    """The user's function with the case's mask and scale, on (batch, heads, length, head_dim) tensors."""
    from kernels.device.runtime import DEVICE

    arguments = call_arguments(function, case, DEVICE, limits)

    def attend(*tensors: torch.Tensor) -> tuple[Any, Any]:
        given = [tensor.transpose(1, 2) if limits.layout == "blhd" else tensor for tensor in tensors]
        if limits.strides != "any":
            every = limits.strides == "contiguous"
            given = [tensor.contiguous() if every or tensor.stride(-1) != 1 else tensor for tensor in given]
        result = function(*given, **arguments)
        out, second = (*result, None)[:2] if isinstance(result, tuple | list) and result else (result, None)
        return _in_our_layout(out, limits), second

    return attend


def _in_our_layout(out: Any, limits: Limits) -> Any:
    if limits.layout == "blhd" and getattr(out, "ndim", 0) == 4:
        return out.transpose(1, 2)
    return out


def check_output(out: Any, query: torch.Tensor) -> torch.Tensor:
    """The output, if it is a tensor shaped and typed as `query`. Raises Broken."""
    import torch

    if not isinstance(out, torch.Tensor):
        raise Broken(f"it returned {type(out).__name__}; expected a tensor shaped as query")
    if out.shape != query.shape or out.dtype != query.dtype:
        expected = f"expected {query.dtype} {tuple(query.shape)}, as query"
        raise Broken(f"it returned {out.dtype} {tuple(out.shape)}; {expected}")
    return out


def lse_of(second: Any, query: torch.Tensor, limits: Limits, notes: list[str]) -> torch.Tensor | None:
    """The second result of the function as lse (batch, q_heads, q_len); a note says if it is none."""
    import torch

    if second is None or limits.lse == "none":
        return None
    shape = query.shape[:3]
    if (
        not isinstance(second, torch.Tensor)
        or second.numel() != shape.numel()
        or not second.is_floating_point()
    ):
        what = tuple(second.shape) if isinstance(second, torch.Tensor) else type(second).__name__
        note = f"Its second result, {what}, was not judged: lse would be a tensor {tuple(shape)}."
        if note not in notes:
            notes.append(note)
        return None
    if limits.layout == "blhd" and tuple(second.shape) == (shape[0], shape[2], shape[1]) != tuple(shape):
        second = second.transpose(1, 2)
    lse = second.detach().float().reshape(shape)
    return lse * math.log(2) if limits.lse == "log2" else lse
