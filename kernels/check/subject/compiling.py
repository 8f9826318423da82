"""Compiles the kernels of a user's function for a GPU that is not there, while the check of a case goes on.

A second worker does this, started with COMPILES_ONLY. There the function runs as in a check, forward and
backward, but for its launches: these compile their kernel with the signature at hand, and go no further.
"""

import contextlib
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kernels.check.case.cases import CheckCase
from kernels.check.subject.user_kernel import LoadedKernel, UserKernel
from kernels.check.subject.user_modules import source_files
from kernels.device.backend import COMPILES_ONLY
from kernels.device.interpreter import replaced
from kernels.sanitizer.finding import Finding
from kernels.sanitizer.source import line_of
from kernels.worker.client import Job, WorkerClient
from kernels.worker.failures import FAILURES
from kernels.worker.requests import Answer, Progress, Request

LIMIT_S = 8.0
"""A check waits so long for the compiler after all else is done: a part of the time limit of a case."""
JOB_LIMIT_S = 60.0
"""Until then the compiler goes on, and a later case gets what it has compiled."""
LAST_STAGE = "ttgir"
"""Kernels are compiled up to here: what the compiler says of the user's code it has said by then. What
follows (LLVM, ptxas) takes most of the time."""
TARGETS = (90, 80)
"""Compute capabilities, in tens: a kernel has to compile for an H100, or else for an A100."""
DIAGNOSTIC = re.compile(r"^(?:loc\()?\"?(/[^:\"]+\.py)\"?:(\d+):\d+\)?: error: (.*)", re.MULTILINE)
"""An error of the compiler's passes, as they print it."""


@dataclass(frozen=True)
class Compiled:
    """What the compiler says of the kernels that a case launches."""

    kernels: tuple[str, ...] = ()
    finding: Finding | None = None
    not_done: str = ""
    """Why not all of them were compiled; "" if they were."""

    @property
    def note(self) -> str:
        """For the notes of a check; "" if there is nothing to say."""
        if self.finding or not (self.not_done or self.kernels):
            return ""
        if self.not_done:
            return f"Not compiled for a GPU: {self.not_done.rstrip('.')}."
        return f"Compiled, without a GPU, for an H100 or an A100: {', '.join(self.kernels)}."


@dataclass(frozen=True)
class CompileRequest(Request[Compiled]):
    answers = Compiled
    case: CheckCase
    kernel: str
    """The user's function, as `UserKernel.argument`."""

    def run(self, blob: bytes, progress: Progress) -> Answer:
        return compile_case(UserKernel.unchecked(self.kernel), self.case), b""


_client: WorkerClient | None = None
_of = ""
"""The function that it compiles, as `UserKernel.argument`."""


def ask_compiler(case: CheckCase, kernel: UserKernel) -> Job[Compiled]:
    """Begin to compile what the function launches in the case."""
    global _client, _of
    if _client and _of != kernel.argument:  # its process knows what another function did there
        _client.close()
        _client = None
    _of = kernel.argument
    if _client is None:
        environment = {COMPILES_ONLY: "1", "TRITON_INTERPRET": "0"}
        _client = WorkerClient(JOB_LIMIT_S, environment=environment)
    return _client.submit(CompileRequest(case, kernel.argument))


def answer_of(job: Job[Compiled]) -> Compiled:
    """What came of it, within LIMIT_S."""
    try:
        return job.result(LIMIT_S)
    except TimeoutError:
        return Compiled(not_done=f"it took longer than {LIMIT_S:g} s")
    except FAILURES as error:
        return Compiled(not_done=f"the process of the compiler ended: {error}")


class Stopped(Exception):
    """Ends the user's function at the launch whose kernel does not compile."""


class Enough(Exception):
    """Ends a compilation after LAST_STAGE."""


class Compiler:
    """Stands in the place of every launch while it is on. It keeps what it knows of a version of a file."""

    def __init__(self, version: str, files: Sequence[Path]) -> None:
        self.version, self._files = version, files
        self._log: IO[str]
        self._run: Callable[..., Any]
        self._known: dict[str, Finding | None] = {}
        """By signature: what the compiler says against it, None if nothing."""
        self.names: list[str] = []
        """Kernels of the case that compile."""
        self.finding: Finding | None = None
        """What it says against a kernel of the case."""

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """While the body runs, launches compile. What the compiler's passes print is caught."""
        from triton import knobs
        from triton.runtime.jit import JITFunction

        self._run, self.names, self.finding = JITFunction.run, [], None
        launch: Any = lambda kernel, *args, **options: self.launch(kernel, args, options)  # noqa: E731
        with tempfile.TemporaryFile("w+") as self._log, contextlib.ExitStack() as stack:
            stderr = os.dup(2)
            stack.callback(os.close, stderr)
            stack.callback(os.dup2, stderr, 2)
            os.dup2(self._log.fileno(), 2)
            stack.enter_context(replaced(JITFunction, "run", launch))
            stack.enter_context(replaced(knobs.runtime, "add_stages_inspection_hook", _up_to_last_stage))
            yield

    def launch(self, kernel: Any, args: tuple, options: dict) -> None:
        """Compile the kernel if its constexprs and types are new. Raises Stopped if it does not compile."""
        key = _signature(kernel, args, options)
        if key not in self._known:
            self._known[key] = self._compiled(kernel, args, options)
        self.finding = self._known[key]
        if self.finding:
            raise Stopped
        if kernel.__name__ not in self.names:
            self.names.append(kernel.__name__)

    def _compiled(self, kernel: Any, args: tuple, options: dict) -> Finding | None:
        """What is wrong with it on the first of TARGETS, if it compiles for none."""
        driver = sys.modules["triton.runtime.driver"].driver
        findings = []
        for target in TARGETS:
            start = self._log.seek(0, os.SEEK_END)
            try:
                with replaced(driver, "_active", _Target(driver._active, target)):
                    self._run(kernel, *args, **options | {"warmup": True})
                return None
            except Enough:
                return None
            except Exception as error:  # whatever the compiler raises is its answer
                self._log.seek(start)
                findings.append(_finding(kernel, error, self._log.read(), self._files))
        return findings[0]


def _up_to_last_stage(*given: Any) -> Any:
    """A hook of Triton's: whoever asks for nothing gets a key of its cache."""

    def stop(*_: Any) -> None:
        raise Enough

    if not given:
        return LAST_STAGE, LAST_STAGE
    stages = given[1]
    after = list(stages)[list(stages).index(LAST_STAGE) + 1 :] if LAST_STAGE in stages else []
    stages.update(dict.fromkeys(after, stop))
    return None


class _Target:
    """A driver of a GPU that is not there. Triton keeps what it compiled by the number of the device."""

    def __init__(self, driver: Any, target: int) -> None:
        self._driver, self._target = driver, target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def get_current_device(self) -> int:
        return self._target

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._target, 32)


def _signature(kernel: Any, args: tuple, options: dict) -> str:
    """What tells one compilation from another: constexprs, types, and options such as num_warps."""
    given = dict(zip(kernel.arg_names, args, strict=False)) | options
    typed = {param.name for param in kernel.params if not param.is_constexpr}
    parts = {
        name: str(getattr(value, "dtype", type(value).__name__)) if name in typed else repr(value)
        for name, value in given.items()
        if name not in ("grid", "warmup")
    }
    return f"{kernel.fn.__code__.co_filename}:{kernel.fn.__code__.co_firstlineno} {parts}"


def _finding(kernel: Any, error: Exception, log: str, files: Sequence[Path]) -> Finding:
    """The refusal with its file and line: of the exception, or of what the passes printed."""
    from triton.compiler.errors import CompilationError

    file, line = kernel.fn.__code__.co_filename, kernel.fn.__code__.co_firstlineno
    words, link = f"{type(error).__name__}: {error}", error
    while link is not None:
        if isinstance(link, CompilationError):
            words = link.error_message or words
            if hasattr(link.node, "lineno"):
                file, line = _place_of(link.src, link.node.lineno, files) or (file, line)
        elif link is not error:
            words = f"{type(link).__name__}: {link}"
        link = link.__cause__  # type: ignore[assignment]
    printed = DIAGNOSTIC.search(log)
    if printed and not isinstance(error, CompilationError):
        words = printed[3]
        file, line = (printed[1], int(printed[2])) if Path(printed[1]) in files else (file, line)
    words = next(iter(words.strip().splitlines()), type(error).__name__)
    if quoted := re.fullmatch(r"\w+\([\"'](.*)[\"']\)", words):  # the repr of an exception
        words = quoted[1]
    what = textwrap.shorten(words, 220).rstrip(".")
    words = f"Triton's compiler refuses {kernel.__name__} for an H100 and an A100: {what}"
    return Finding("compile error", words, file, line, line_of(file, line))


def _place_of(source: str, line: int, files: Sequence[Path]) -> tuple[str, int] | None:
    """File and line of a line of a function's source, from its `def` on; None if it is not the user's."""
    for file in files:
        before, found, _ = file.read_text("utf-8", "replace").partition(source)
        if found:
            return str(file), before.count("\n") + line
    return None


_compiler: Compiler | None = None


def compile_case(user: UserKernel, case: CheckCase) -> Compiled:
    """Compile the kernels of one case. Whatever the user's code does, the next case is compiled."""
    global _compiler
    compiler = None
    try:
        loaded = user.load()
        if _compiler is None or _compiler.version != user.version:
            _compiler = Compiler(user.version, source_files(user.path))
        compiler = _compiler
        with compiler.on(), loaded.running():
            _call(loaded, case)
    except BaseException as error:  # whatever the user's code raises
        if compiler and compiler.finding:
            return Compiled(finding=compiler.finding)
        words = next(iter(str(error).splitlines()), "")
        return Compiled(not_done=f"{type(error).__name__}: {words}"[:200])
    return Compiled(tuple(compiler.names))


def _call(loaded: LoadedKernel, case: CheckCase) -> None:
    import torch

    from kernels.check.case.layouts import laid_out
    from kernels.problem.inputs import make_d_output, make_inputs

    attend = loaded.attend(case)
    *inputs, d_out = laid_out((*make_inputs(case.problem), make_d_output(case.problem)), case.layout)
    learns = case.gradients and not loaded.limits.forward_only
    leaves = [tensor.detach().requires_grad_(learns) for tensor in inputs]
    out = attend(*leaves)[0]
    if learns and isinstance(out, torch.Tensor) and out.requires_grad:
        torch.autograd.grad(out, leaves, d_out, allow_unused=True)
