"""Functions that try to pass without being right, and some that break the process that they run in."""

import os
import sys
import threading

import torch
import torch.nn.functional as F

right, CACHE = F.scaled_dot_product_attention, {}


def off_by_five_percent(query, key, value):
    """Wrong, and to the judge in its own process nothing would differ from anything."""
    torch.Tensor.abs = torch.abs = lambda tensor, *_: torch.zeros_like(tensor)
    return 1.05 * right(query, key, value)


def nothing(query, key, value):
    """Every product is 0, so that the exact result would be 0, too."""
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
    threading.Timer(0.002, out.zero_).start()
    return out


def leaves_quietly(query, key, value):
    exit()


def leaves_at_once(query, key, value):
    os._exit(0)


def leaves_later(query, key, value):
    if CACHE.setdefault("calls", []):
        os._exit(5)
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
