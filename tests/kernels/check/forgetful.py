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


class Learns(torch.autograd.Function):
    """Leaves out the last key; its gradients are right."""

    @staticmethod
    def forward(ctx, query, key, value):
        ctx.save_for_backward(query, key, value)
        return right(query, key[:, :, :-1], value[:, :, :-1])

    @staticmethod
    def backward(ctx, d_out):
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            return torch.autograd.grad(right(*leaves), leaves, d_out)


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
