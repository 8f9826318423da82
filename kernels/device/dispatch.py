"""Hearing of torch's operations without loading torch.compile."""

import functools
import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):
    """Torch's mode, which loads torch.compile's tracer when it first hears of an operation, to be left out of
    what that traces: two seconds of a processor in each process. Here only a tracer that is there is told."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__torch_dispatch__" in cls.__dict__:
            cls.__torch_dispatch__ = _untraced(cls.__torch_dispatch__)  # type: ignore[method-assign]


def _untraced(hear: Any) -> Any:
    """The method, which torch.compile does not trace."""
    disabled: Any = torch._disable_dynamo(hear)

    @functools.wraps(hear)
    def heard(*args: Any, **options: Any) -> Any:
        is_loaded = hasattr(sys.modules.get("torch._dynamo"), "disable")
        return (disabled if is_loaded else hear)(*args, **options)

    return heard
