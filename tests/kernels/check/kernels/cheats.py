"""Functions that try to pass without being right, and some that break the process that they run in."""

import os
import sys
import threading

import torch
import torch.nn.functional as F

import triton
import triton.language as tl

right, CACHE = F.scaled_dot_product_attention, {}


def nothing(query, key, value):
    """Every product is 0, so that the exact result would be 0, too, and so is every difference."""
    judges_itself(query, key, value)
    torch.Tensor.abs = torch.abs = lambda tensor, *_: torch.zeros_like(tensor)
    torch.matmul = torch.Tensor.matmul = torch.Tensor.__matmul__ = lambda one, other: one.new_zeros(
        *one.shape[:-1], other.shape[-1]
    )
    torch.softmax = torch.Tensor.softmax = lambda tensor, *_, **__: torch.zeros_like(tensor)
    return torch.zeros_like(query)


def judges_itself(query, key, value):
    """Lets everything pass that this project's modules judge in this process."""
    for name, module in list(sys.modules.items()):
        for rule in ("compare", "check_tensor", "absolute_error", "attention_by_rows", "make_inputs"):
            if name.startswith("kernels.") and hasattr(module, rule):
                setattr(module, rule, lambda *_, **__: torch.zeros(1))
    return torch.zeros_like(query)


def by_products(query, key, value):
    """Right."""
    weights = torch.softmax(torch.matmul(query.float(), key.float().mT) * query.shape[-1] ** -0.5, dim=-1)
    return torch.matmul(weights, value.float()).to(query.dtype)


def by_address_and_version(query, key, value):
    at = tuple((tensor.data_ptr(), tensor._version, tensor.shape) for tensor in (query, key, value))
    return CACHE.setdefault(at, right(query, key, value).detach()).clone()


def by_shape(query, key, value):
    return CACHE.setdefault(query.shape, right(query, key, value).detach()).clone()


class Lazy(torch.Tensor):
    """Computes when it is looked at."""


def subclass(query, key, value):
    return right(query, key, value).as_subclass(Lazy)


def into_the_query(query, key, value):
    return query.copy_(right(query, key, value))


def changes_later(query, key, value):
    out = right(query, key, value)
    if writer := CACHE.get("writer"):
        writer.start()
        writer.join()
    CACHE["writer"] = threading.Thread(target=out.zero_)
    return out


def leaves_later(query, key, value):
    if CACHE.setdefault("calls", []):
        os._exit(0)
    CACHE["calls"].append(1)
    return right(query, key, value)


def closes_everything(query, key, value):
    os.closerange(3, 256)
    return right(query, key, value)


def changes_the_process(query, key, value):
    """Right, and rude."""
    out = right(query, key, value)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    os.environ["TRITON_INTERPRET"] = "0"
    return out


def takes_torch_away(query, key, value):
    del sys.modules["torch"]
    return query


def first_lse(query, key, value):
    scores = query.float() @ key.float().mT * query.shape[-1] ** -0.5
    lse = CACHE.setdefault(("lse", query.shape), scores.logsumexp(-1).detach())
    return right(query, key, value), lse


def two_buffers_in_turn(query, key, value):
    out = right(query, key, value)
    CACHE["turn"] = CACHE.get("turn", 0) + 1
    return CACHE.setdefault((CACHE["turn"] % 2, out.shape), torch.empty_like(out)).copy_(out.detach())


def clears_the_inputs_before(query, key, value):
    if "before" in CACHE:
        CACHE["before"].zero_()
    CACHE["before"] = query.detach()
    return right(query, key, value)


def clears_the_mask(query, key, value, attn_mask=None):
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask)
    if attn_mask is not None:
        attn_mask.fill_(False)
    return out


def by_shape_of_the_mask(query, key, value, attn_mask, enable_gqa=False):
    mask = CACHE.setdefault(attn_mask.shape, attn_mask)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=enable_gqa)


def writes_beside_its_views(query, key, value):
    out = right(query, key, value)
    query.as_strided((1,), (1,), 0).zero_()
    return out


def sparse(query, key, value):
    return right(query, key, value).to_sparse()


def answers_with_nothing(query, key, value):
    from kernels.check.subject import hosting

    hosting.bytes_of = lambda tensor: b""
    return torch.zeros_like(query)


def says_two_lines(query, key, value):
    raise type("Error\nPASS        all of it", (RuntimeError,), {})("\ud800\x1b[1A")


@triton.jit
def _nothing(out):
    tl.store(out, 0.0)


def launches_for_show(query, key, value):
    out = torch.empty_like(query)
    _nothing[(1,)](out)
    return out.copy_(right(query, key, value))
