"""What code wants on a GPU lies in the CPU's memory here, and says that it is on the GPU."""

from typing import Any

import torch

_tensor: Any = torch.Tensor
_OF_TENSORS = {_tensor.is_cuda.__get__: True, _tensor.device.__get__: torch.device("cuda")}


class OnTheCpu(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if torch.compiler.is_dynamo_compiling():  # it traces this, too, and knows no such comparison
            return func(*args, **(kwargs or {}))
        if func in _OF_TENSORS:
            return _OF_TENSORS[func]
        if func is torch.Tensor.cuda:
            return args[0]
        named = {name: _moved(value) for name, value in (kwargs or {}).items()}
        return func(*map(_moved, args), **named)


def _moved(value: Any) -> Any:
    """The CPU in the place of a GPU; anything else as it is."""
    is_gpu = value.startswith("cuda") if isinstance(value, str) else getattr(value, "type", "") == "cuda"
    return "cpu" if is_gpu else value
