"""The operators behind `flash_attention`: registered with torch for torch.compile, bare for plain calls.

Torch's dispatcher in Python costs more than the launch of a short kernel. So a call that nothing traces or
transforms goes straight to the launchers, through a `torch.autograd.Function` if it needs a gradient. Every
other call goes through `torch.ops.flash_attention`, or through the same `Function` under torch.func.
"""

from typing import Any, NoReturn

import torch
from torch import Tensor

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.dispatch import attention_forward, attention_gradients
from kernels.primitives.replay import Repetition, is_traced, repeat, repetition_of, signature_of
from kernels.problem import Band

Settings = tuple[int, int, float]
"""Left and right bound of the `Band`, and the scale, which is positive."""
Forward = tuple[Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor]


def launch_forward(query: Tensor, key: Tensor, value: Tensor, left: int, right: int, scale: float) -> Forward:
    """Output and lse by the kernels that fit the shape; `left` and `right` are those of a `Band`."""
    q_len, kv_len = query.shape[2], key.shape[2]
    if query.numel() == 0 or kv_len == 0:
        lse = torch.full(query.shape[:3], float("-inf"), dtype=torch.float32, device=query.device)
        return torch.zeros_like(query), lse
    return attention_forward(query, key, value, band=Band(q_len, kv_len, left, right), scale=scale)


def launch_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    d_lse: Tensor | None,
    left: int,
    right: int,
    scale: float,
) -> Gradients:
    """Gradients of query, key and value; `d_lse` is contiguous."""
    q_len, kv_len = query.shape[2], key.shape[2]
    if query.numel() == 0 or kv_len == 0:
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    band = Band(q_len, kv_len, left, right)
    return attention_gradients(BackwardInputs(query, key, value, out, lse, d_out, band, scale, d_lse))


_library = torch.library.Library("flash_attention", "DEF")
_library.define(
    "forward(Tensor query, Tensor key, Tensor value, SymInt left, SymInt right, float scale)"
    " -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    "backward(Tensor query, Tensor key, Tensor value, Tensor out, Tensor lse, Tensor d_out, Tensor? d_lse,"
    " SymInt left, SymInt right, float scale) -> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


for _device in ("CPU", "CUDA"):
    _library.impl("forward", lambda *given: repeat(launch_forward, given[:3], given[3:]), _device)
    _library.impl("backward", lambda *given: repeat(launch_backward, given[:7], given[7:]), _device)


@torch.library.register_fake("flash_attention::forward", lib=_library)
def _(query: Tensor, *_others: Any) -> Forward:
    return torch.empty_like(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.register_fake("flash_attention::backward", lib=_library)
def _(query: Tensor, key: Tensor, value: Tensor, *_others: Any) -> Gradients:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def attend(
    query: Tensor, key: Tensor, value: Tensor, settings: Settings, repetition: Repetition | None
) -> Forward:
    """Output and lse, differentiable.

    A caller that found nothing that takes part in torch's calls gives the repetition of `launch_forward`.
    """
    if repetition is None:
        if torch.compiler.is_compiling() or not _is_transformed():
            return torch.ops.flash_attention.forward(query, key, value, *settings)
        return _TransformedForward.apply(query, key, value, *settings)
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return _PlainForward.apply(query, key, value, settings, repetition)
    out, lse = repetition((query, key, value))
    return out, lse


def _is_transformed() -> bool:
    """Whether a transform of torch.func is at work: vmap, grad, jvp and what is made of them."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Forward) -> None:
    query, key, value, ctx.left, ctx.right, ctx.scale = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value, *output)


def _differentiate(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    query, key, value, out, lse = ctx.saved_tensors
    if d_out is None:
        d_out = torch.zeros_like(out)
    d_lse = None if d_lse is None else d_lse.contiguous()
    tensors, settings = (query, key, value, out, lse, d_out, d_lse), (ctx.left, ctx.right, ctx.scale)
    is_plain = not (torch.is_grad_enabled() or is_traced())
    if is_plain and (signature := signature_of(tensors)):
        gradients = repetition_of(launch_backward, settings, signature)(tensors)
    elif torch.compiler.is_compiling() or not _is_transformed():
        gradients = torch.ops.flash_attention.backward(*tensors, *settings)
    else:
        gradients = _TransformedBackward.apply(*tensors, *settings)
    return *gradients, None, None, None


def _refuse_second_derivative(ctx: Any, *grad_outputs: Any) -> NoReturn:
    raise NotImplementedError(
        "flash_attention has first derivatives only; for a second one use naive_attention, or the math "
        "backend of scaled_dot_product_attention"
    )


def refuse_forward_mode(ctx: Any = None, *grad_inputs: Any) -> NoReturn:
    """Say that there are no derivatives in forward mode, in place of a tangent that is silently lost."""
    raise NotImplementedError(
        "flash_attention has no forward-mode derivative (jvp, jacfwd, dual tensors); use reverse mode (grad, "
        "vjp, jacrev), or the math backend of scaled_dot_product_attention"
    )


class _PlainForward(torch.autograd.Function):
    """The forward pass of a plain call. `forward` takes the context: `setup_context` costs more."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, settings: Settings, repetition: Repetition
    ) -> Forward:
        out, lse = repetition((query, key, value))
        _save_for_backward(ctx, (query, key, value, *settings), (out, lse))
        return out, lse

    @staticmethod
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        return _differentiate(ctx, d_out, d_lse)[:5]


torch.library.register_autograd(
    "flash_attention::forward", _differentiate, setup_context=_save_for_backward, lib=_library
)
torch.library.register_autograd("flash_attention::backward", _refuse_second_derivative, lib=_library)


class _Transformed(torch.autograd.Function):
    """An operator under torch.func, which takes none whose gradients are registered."""

    jvp = staticmethod(refuse_forward_mode)

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        """The operator on tensors (batch, ...): one call, the mapped dimension in the batch."""

        def folded(argument: Any, dim: int | None) -> Any:
            if not isinstance(argument, Tensor):
                return argument
            if dim is None:
                return argument.unsqueeze(0).expand(info.batch_size, *argument.shape).flatten(0, 1)
            return argument.movedim(dim, 0).flatten(0, 1)

        results = cls.apply(*map(folded, arguments, in_dims))
        mapped = tuple(result.unflatten(0, (info.batch_size, -1)) for result in results)
        return mapped, (0,) * len(mapped)


class _TransformedForward(_Transformed):
    forward = staticmethod(torch.ops.flash_attention.forward)
    setup_context = staticmethod(_save_for_backward)
    backward = staticmethod(_differentiate)


class _TransformedBackward(_Transformed):
    forward = staticmethod(torch.ops.flash_attention.backward)
    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(_refuse_second_derivative)
