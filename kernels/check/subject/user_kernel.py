"""The user's own functions, which the command line names as `file.py:function`.

Such a function has the signature of scaled_dot_product_attention. Only the worker process imports it, and
after our kernels, so that TRITON_INTERPRET is set before the file imports triton.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.check.case.cases import USERS, CheckCase
from kernels.check.subject.limits import NAME, InvalidLimits, Limits
from kernels.check.subject.user_call import UserFunction, attend_with
from kernels.check.subject.user_errors import trace_text, user_frames
from kernels.check.subject.user_modules import UserModules, version_of
from kernels.device.no_gpu import answers_without_gpu, needs_gpu, refuse_libdevice
from kernels.problem import AttentionProblem, InvalidProblem

if TYPE_CHECKING:
    import torch

    from kernels.check.subject.user_call import Attend


@dataclass(frozen=True)
class UserKernel:
    """The file and the name of the function."""

    path: Path
    function: str
    given: str = field(default="", compare=False)
    """What the command line said, for a command that repeats it; "" in another process."""

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
        return cls(Path(path).resolve(), function, text)

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
    def typed(self) -> str:
        """What names it in a command: as it was given."""
        return self.given or self.argument

    @property
    def name(self) -> str:
        """What the page calls the function."""
        return f"{self.path.name}:{self.function}"

    @property
    def version(self) -> str:
        """Changes when the file, or one that it imports, is saved: older results are not shown for it."""
        return version_of(self.path)

    def load(self) -> LoadedKernel:
        """Import the file, again if it has changed. Raises UserKernelError, which says what went wrong."""
        import kernels.device.runtime  # noqa: F401  (before the file can import triton)

        version = self.version
        if self not in _loaded or _loaded[self][0] != version:
            _loaded[self] = version, _load(self)
        return _loaded[self][1]


class UserKernelError(Exception):
    """The user's file could not be imported, or has no such function."""

    def __init__(self, words: str, trace: str = "") -> None:
        super().__init__(words)
        self.trace = trace
        """The traceback through the user's files; "" if no line of them was reached."""


@dataclass(frozen=True)
class LoadedKernel:
    """The function, what its file declares of it, and the modules that it needs while it runs."""

    function: UserFunction
    limits: Limits
    modules: UserModules
    without_gpu: bool
    said: list[str] = field(default_factory=list)
    """What was answered in the place of a GPU, for the notes of a check."""

    def attend(self, case: CheckCase) -> Attend:
        """The function with the case's mask and scale, called within `running`. Raises InvalidProblem."""
        return attend_with(self.function, self.limits, case)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Surroundings of every call of the function."""
        with _surroundings(self.modules, self.without_gpu) as said:
            try:
                yield
            finally:
                self.said.extend(words for words in said if words not in self.said)


_loaded: dict[UserKernel, tuple[str, LoadedKernel]] = {}


@contextlib.contextmanager
def _surroundings(modules: UserModules, without_gpu: bool) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(answers_without_gpu()) if without_gpu else []
        stack.enter_context(modules.active())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", RuntimeWarning)
        yield said


def _load(kernel: UserKernel) -> LoadedKernel:
    from kernels.device.bfloat16 import make_bfloat16_exact
    from kernels.device.runtime import INTERPRETED, WITHOUT_GPU

    if INTERPRETED:
        make_bfloat16_exact()
        refuse_libdevice()
    modules = UserModules(kernel.path)
    try:
        with _surroundings(modules, WITHOUT_GPU) as said:
            module = modules.load()
    except BaseException as error:  # whatever the file raises at import, pytest.skip too, is told to the user
        trace = trace_text(error, user_frames(error, modules.holds))
        words = f"{type(error).__name__}: {error}"
        if WITHOUT_GPU and needs_gpu(words):
            words = f"needs a GPU: {words}"
        raise UserKernelError(f"{kernel.name} could not be imported: {words}", trace) from error
    function = getattr(module, kernel.function, None)
    if not callable(function):
        functions = sorted(
            name
            for name, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == module.__name__ and name[0] != "_"
        )
        has = f"; it has {' and '.join(functions)}" if functions else ""
        raise UserKernelError(f"{kernel.path.name} has no function {kernel.function}{has}")
    try:
        limits = Limits.declared(getattr(module, NAME, None))
    except InvalidLimits as error:
        raise UserKernelError(f"{kernel.path.name}: {error}") from error
    return LoadedKernel(function, limits, modules, WITHOUT_GPU, said)


_named: dict[str, UserKernel] = {}


def name_user_kernels(kernels: Sequence[UserKernel]) -> None:
    """Make the kernels known to this process: to the check, and as peers to the measurement."""
    from kernels.measure.peers import PEERS, Peer

    if len(kernels) > len(USERS):
        raise InvalidProblem("kernel", f"{len(kernels)} kernels", f"expected at most {len(USERS)}")
    for name in USERS:
        _named.pop(name, None)
        PEERS.pop(name, None)
    for name, kernel in zip(USERS, kernels, strict=False):
        _named[name] = kernel
        PEERS[name] = Peer(kernel.name, ("cuda", "interpreter"), _peer_of(kernel), by_default=False)


def _peer_of(kernel: UserKernel) -> Callable[[AttentionProblem], Callable[..., torch.Tensor]]:
    def make(problem: AttentionProblem) -> Callable[..., torch.Tensor]:
        loaded = kernel.load()
        attend = loaded.attend(CheckCase(problem))

        def measured(*tensors: torch.Tensor) -> torch.Tensor:
            with loaded.running():
                return attend(*tensors)[0]

        return measured

    return make


def user_kernel(name: str = USERS[0]) -> UserKernel:
    """The kernel that this process's command line named. Raises InvalidProblem if it named none."""
    if name not in _named:
        raise InvalidProblem(
            "kernel",
            name,
            "no file was named on the command line",
            "Start with: streamlit run app.py -- --kernel my_file.py:fn",
        )
    return _named[name]
