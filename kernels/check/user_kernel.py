"""The user's own function, which the command line names as `file.py:function`.

It has the signature of scaled_dot_product_attention. Only the worker process imports it, and after our
kernels, so that TRITON_INTERPRET is set before the file imports triton.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.problem import AttentionProblem, InvalidProblem

if TYPE_CHECKING:
    import torch

MODULE_NAME = "user_kernel_file"
UserFunction = Callable[..., "torch.Tensor"]
"""A function of query, key and value, and of those options of scaled_dot_product_attention that it knows."""


@dataclass(frozen=True)
class UserKernel:
    """The file and the name of the function."""

    path: Path
    function: str

    @classmethod
    def parse(cls, text: str) -> UserKernel:
        """From "my_file.py:my_function"; the path is made absolute. Raises InvalidProblem."""
        path, colon, function = text.rpartition(":")
        if not colon or not path.endswith(".py") or not function.isidentifier():
            raise InvalidProblem(
                "kernel", text, "expected a Python file and a function in it, such as my_file.py:my_function"
            )
        if not Path(path).is_file():
            raise InvalidProblem("kernel", text, f"there is no file {path} here", "Check the path.")
        return cls(Path(path).resolve(), function)

    @classmethod
    def unchecked(cls, text: str) -> UserKernel:
        """The reverse of `argument`. A missing file is refused when it is loaded."""
        path, _, function = text.rpartition(":")
        return cls(Path(path), function)

    @property
    def argument(self) -> str:
        """What names the function on another process's command line."""
        return f"{self.path}:{self.function}"

    @property
    def name(self) -> str:
        """What the page calls the function."""
        return f"{self.path.name}:{self.function}"

    @property
    def version(self) -> str:
        """Changes when the file is saved: results of an older version are not shown for a newer one."""
        try:
            return str(self.path.stat().st_mtime_ns)
        except OSError:
            return "missing"

    def load(self) -> UserFunction:
        """Import the file, again if it has changed. Raises UserKernelError, which says what went wrong."""
        return _load(self, self.version)


class UserKernelError(Exception):
    """The user's file could not be imported, or has no such function."""


_loaded: dict[UserKernel, tuple[str, UserFunction]] = {}


def _load(kernel: UserKernel, version: str) -> UserFunction:
    import kernels.device.runtime  # noqa: F401  (before the file can import triton)

    if _loaded.get(kernel, ("",))[0] == version:
        return _loaded[kernel][1]
    folder = str(kernel.path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(MODULE_NAME, kernel.path)
    if spec is None or spec.loader is None:
        raise UserKernelError(f"{kernel.path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the file raises at import is told to the user
        raise UserKernelError(
            f"{kernel.name} could not be imported: {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, kernel.function, None)
    if not callable(function):
        raise UserKernelError(f"{kernel.path.name} has no function {kernel.function}")
    _loaded[kernel] = version, function
    return function


def call_arguments(
    function: UserFunction, problem: AttentionProblem, device: str
) -> dict[str, bool | torch.Tensor]:
    """Keyword arguments for the problem's mask and heads, as scaled_dot_product_attention takes them.

    A causal mask is `is_causal` if both lengths are the same. Otherwise it is a bool `attn_mask` (q_len,
    kv_len), because torch aligns is_causal to the top left. Raises InvalidProblem if the function has no such
    parameter.
    """
    from kernels.oracle.naive import visible_mask

    arguments: dict[str, bool | torch.Tensor] = {}
    if problem.is_causal and problem.q_len == problem.kv_len:
        arguments["is_causal"] = True
    elif problem.mask != "full":
        arguments["attn_mask"] = visible_mask(problem.band, device=device)
    if problem.q_heads != problem.kv_heads:
        arguments["enable_gqa"] = True
    for name in arguments:
        if not _takes(function, name):
            remedy = "Choose a full mask, or a causal one with equal lengths." if name == "attn_mask" else ""
            raise InvalidProblem(
                "kernel",
                getattr(function, "__name__", "?"),
                f"it has no parameter {name}, which this problem needs",
                remedy,
            )
    return arguments


def _takes(function: UserFunction, name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True  # a builtin does not name its parameters
    return name in parameters or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def attend_with(
    kernel: UserKernel, problem: AttentionProblem
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """The user's function with the problem's mask, as an attention function of kernels.measure.peers."""
    from kernels.device.runtime import DEVICE

    function = kernel.load()
    arguments = call_arguments(function, problem, DEVICE)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        result = function(query, key, value, **arguments)
        return result[0] if isinstance(result, tuple) and result else result

    return attend


_named: list[UserKernel] = []


def name_user_kernel(kernel: UserKernel) -> None:
    """Make the kernel known to this process: to the check, and as the peer "user" to the measurement."""
    from kernels.measure.peers import PEERS, Peer

    _named[:] = [kernel]
    PEERS["user"] = Peer(
        kernel.name, ("cuda", "interpreter"), lambda problem: attend_with(kernel, problem), by_default=False
    )


def user_kernel() -> UserKernel:
    """The kernel that this process's command line named. Raises InvalidProblem if it named none."""
    if not _named:
        raise InvalidProblem(
            "kernel",
            "user",
            "no file was named on the command line",
            "Start with: streamlit run app.py -- --kernel my_file.py:fn",
        )
    return _named[0]
