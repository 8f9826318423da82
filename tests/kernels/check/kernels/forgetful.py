"""Functions that are right at the first call and wrong at a later one."""

import torch
import torch.nn.functional as F

FIRST, KEYS, OUTPUTS = [], {}, {}


def right(query, key, value):
    return F.scaled_dot_product_attention(query, key, value)


def adds_up(query, key, value):
    """Adds to what the call before left in its memory."""
    out = right(query, key, value)
    sums = OUTPUTS.setdefault(("sum", out.shape), torch.zeros_like(out))
    with torch.no_grad():
        sums += out
    return sums.clone()


def keeps_the_keys(query, key, value):
    """Keeps K by its address."""
    kept = KEYS.setdefault((key.data_ptr(), key.shape), key.detach().clone())
    return right(query, kept, value)


def returns_one_memory(query, key, value):
    out = right(query, key, value)
    static = OUTPUTS.setdefault(("static", out.shape), torch.empty_like(out))
    with torch.no_grad():
        static.copy_(out)
    return static


class Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value):
        ctx.save_for_backward(query, key, value)
        return right(query, key, value)

    @staticmethod
    def backward(ctx, d_out):
        found = gradients_of(ctx.saved_tensors, d_out)
        return tuple(
            each if needed else None for each, needed in zip(found, ctx.needs_input_grad, strict=True)
        )


class Learns(torch.autograd.Function):
    """Leaves out the last key; its gradients are right."""

    @staticmethod
    def forward(ctx, query, key, value):
        ctx.save_for_backward(query, key, value)
        return right(query, key[:, :, :-1], value[:, :, :-1])

    @staticmethod
    def backward(ctx, d_out):
        return gradients_of(ctx.saved_tensors, d_out)


def wrong_when_it_learns(query, key, value):
    return Learns.apply(query, key, value) if query.requires_grad else right(query, key, value)


def breaks_at_other_numbers(query, key, value):
    FIRST.append(float(query.flatten()[0]))
    if FIRST[-1] != FIRST[0]:
        raise RuntimeError("not the first numbers")
    return right(query, key, value)


def nearly_right(query, key, value):
    """Its scale is off by 3 %: the sums of its weights are 1 as they must be."""
    return F.scaled_dot_product_attention(query, key, value, scale=1.03 * query.shape[-1] ** -0.5)


def as_list(query, key, value):
    return [right(query, key, value)]


def lse_later(query, key, value):
    """Returns an lse from its second call on."""
    FIRST.append(0.0)
    scores = query.float() @ key.float().mT * query.shape[-1] ** -0.5
    return (right(query, key, value), scores.logsumexp(-1)) if len(FIRST) > 1 else right(query, key, value)


class Remembers(torch.autograd.Function):
    """Right gradients, computed from the tensors of the last forward pass of all."""

    @staticmethod
    def forward(ctx, query, key, value):
        OUTPUTS["last"] = (query, key, value)
        return right(query, key, value)

    @staticmethod
    def backward(ctx, d_out):
        return gradients_of(OUTPUTS["last"], d_out)


def remembers_the_last_forward(query, key, value):
    return Remembers.apply(query, key, value)


class AddsUp(torch.autograd.Function):
    """Keeps its gradients in the graph, and adds to them."""

    @staticmethod
    def forward(ctx, query, key, value):
        ctx.save_for_backward(query, key, value)
        ctx.sums = [torch.zeros_like(tensor) for tensor in (query, key, value)]
        return right(query, key, value)

    @staticmethod
    def backward(ctx, d_out):
        for total, gradient in zip(ctx.sums, gradients_of(ctx.saved_tensors, d_out), strict=True):
            total += gradient
        return tuple(total.clone() for total in ctx.sums)


def adds_up_in_the_graph(query, key, value):
    return AddsUp.apply(query, key, value)


class Skips(Right):
    """Leaves out the pass that computes dQ if nobody asks for it, and with it what dK needs."""

    @staticmethod
    def backward(ctx, d_out):
        found = gradients_of(ctx.saved_tensors, d_out)
        if not ctx.needs_input_grad[0]:
            return None, found[1] * 0, found[2]
        return found


def wrong_without_dq(query, key, value):
    return Skips.apply(query, key, value)


def right_with_a_backward_of_its_own(query, key, value):
    return Right.apply(query, key, value)


def gradients_of(tensors, d_out):
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        return torch.autograd.grad(right(*leaves), leaves, d_out)
