"""Compiles a user's kernels for a GPU that is not there: `python -m kernels.check.compile_process`.

Its client is `kernels.check.compiler`. It reads kernels and cases from standard input, a line of JSON each,
and answers each with a line. For each case the user's function runs as in a check, forward and backward, but
for its launches: these compile their kernel with the signature at hand, and go no further.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import queue
import re
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from kernels.check.cases import CheckCase
from kernels.check.user_kernel import LoadedKernel, UserKernel
from kernels.device.backend import COMPILES_ONLY

MOST_SECONDS = 12.0
"""After so many seconds in the compiler, kernels with signatures that are new are left out."""
LAST_STAGE = "ttgir"
"""Of a kernel that was compiled before, other constexprs and types are compiled up to here: what the compiler
says of the user's code it has said by then. What follows (LLVM, ptxas) takes most of the time."""
TARGETS = (80, 90)
"""Compute capabilities, in tens: a kernel has to compile for one of them. The first is that of the GPU that
`kernels.device.no_gpu` tells code about."""
DIAGNOSTIC = re.compile(r"^(?:loc\()?\"?(/[^:\"]+\.py)\"?:(\d+):\d+\)?: error: (.*)", re.MULTILINE)
"""An error of the compiler's passes, as they print it."""


class Stopped(Exception):
    """Ends the user's function at the launch whose kernel does not compile."""


class Enough(Exception):
    """Ends a compilation after LAST_STAGE."""


class Compiler:
    """Stands in the place of every launch."""

    def __init__(self, log: IO[str]) -> None:
        from triton.runtime.jit import JITFunction

        self._log = log
        self._run = JITFunction.run
        self._version = ""
        self._holds: Callable[[str], bool] = lambda file: False
        self._known: dict[str, dict | None] = {}
        """By signature: what the compiler says against it, None if nothing."""
        self._whole: set[str] = set()
        """Kernels of which one signature was compiled to the end."""
        self._spent = 0.0
        self.names: list[str] = []
        """Kernels of the case that compile."""
        self.left_out = False
        launch: Any = lambda kernel, *args, **options: self.launch(kernel, args, options)  # noqa: E731
        JITFunction.run = launch

    def begin(self, version: str, holds: Callable[[str], bool]) -> None:
        """A case begins. `holds` tells files of the user; of another version of them nothing is known."""
        if version != self._version:
            self._version, self._known, self._whole, self._spent = version, {}, set(), 0.0
        self._holds, self.names, self.left_out = holds, [], False

    def launch(self, kernel: Any, args: tuple, options: dict) -> Any:
        """Compile the kernel if its constexprs and types are new. Raises Stopped if it does not compile."""
        key = _signature(kernel, args, options)
        if key not in self._known and self._spent > MOST_SECONDS:
            self.left_out = True
            return None
        if key not in self._known:
            began = time.perf_counter()
            with contextlib.nullcontext() if kernel.src not in self._whole else _up_to_last_stage():
                self._known[key] = self._compiled(kernel, args, options)
            self._whole.add(kernel.src)
            self._spent += time.perf_counter() - began
        if error := self._known[key]:
            raise Stopped(error)
        if kernel.__name__ not in self.names:
            self.names.append(kernel.__name__)
        return None

    def _compiled(self, kernel: Any, args: tuple, options: dict) -> dict | None:
        """What is wrong with it on the first of TARGETS, if it compiles for none."""
        driver = sys.modules["triton.runtime.driver"].driver
        before, errors = driver._active, []
        for device, target in enumerate(TARGETS):
            driver._active = _Target(before, device, target)
            start = self._log.seek(0, os.SEEK_END)
            try:
                self._run(kernel, *args, **options | {"warmup": True})
            except Enough:
                return None
            except Exception as error:  # whatever the compiler raises is its answer
                self._log.seek(start)
                errors.append(_error(kernel, error, self._log.read(), self._holds))
            else:
                return None
            finally:
                driver._active = before
        return errors[0]


@contextlib.contextmanager
def _up_to_last_stage() -> Iterator[None]:
    """Compile no further than LAST_STAGE while the body runs; to the end if this Triton cannot."""
    from triton import knobs

    def stop(*_: Any) -> None:
        raise Enough

    def hook(*given: Any) -> Any:
        if not given:
            return LAST_STAGE, LAST_STAGE
        stages = given[1]
        after = list(stages)[list(stages).index(LAST_STAGE) + 1 :] if LAST_STAGE in stages else []
        stages.update(dict.fromkeys(after, stop))
        return None

    if not hasattr(knobs.runtime, "add_stages_inspection_hook"):
        yield
        return
    before, knobs.runtime.add_stages_inspection_hook = knobs.runtime.add_stages_inspection_hook, hook
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = before


class _Target:
    """A driver of one GPU: Triton keeps what it compiled by its number."""

    def __init__(self, driver: Any, device: int, target: int) -> None:
        self._driver, self._device, self._target = driver, device, target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def get_current_device(self) -> int:
        """Its number."""
        return self._device

    def get_current_target(self) -> Any:
        """What it compiles for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._target, 32)


def _signature(kernel: Any, args: tuple, options: dict) -> str:
    """What tells one compilation from another: constexprs, types, and options such as num_warps."""
    given = dict(zip(kernel.arg_names, args, strict=False)) | options
    constants = {param.name for param in kernel.params if param.is_constexpr}
    parts = []
    for name, value in given.items():
        if name in ("grid", "warmup"):
            continue
        is_argument = name in kernel.arg_names and name not in constants
        parts.append(f"{name}={_kind(value) if is_argument else repr(value)}")
    return f"{kernel.fn.__code__.co_filename}:{kernel.fn.__code__.co_firstlineno} {parts}"


def _kind(value: Any) -> str:
    return str(getattr(value, "dtype", type(value).__name__))


def _error(kernel: Any, error: Exception, log: str, holds: Callable[[str], bool]) -> dict:
    """File, line and words: of the exception, or of what the passes printed."""
    from triton.compiler.errors import CompilationError

    file, line = kernel.fn.__code__.co_filename, kernel.fn.__code__.co_firstlineno
    words, link = f"{type(error).__name__}: {error}", error
    sources = {each.src: each for each in gc.get_objects() if hasattr(type(each), "_unsafe_update_src")}
    while link is not None:
        if isinstance(link, CompilationError):
            words = link.error_message or words
            function = sources.get(link.src)
            if function and holds(function.fn.__code__.co_filename) and hasattr(link.node, "lineno"):
                file = function.fn.__code__.co_filename
                line = _first_line(function) + link.node.lineno - 1
        elif link is not error:
            words = f"{type(link).__name__}: {link}"
        link = link.__cause__  # type: ignore[assignment]
    printed = DIAGNOSTIC.search(log)
    if printed and not isinstance(error, CompilationError):
        words, at = printed[3], printed[1]
        file, line = (at, int(printed[2])) if holds(at) else (file, line)
    words = next(iter(words.strip().splitlines()), type(error).__name__)
    if quoted := re.fullmatch(r"\w+\([\"'](.*)[\"']\)", words):  # the repr of an exception
        words = quoted[1]
    return {"kernel": kernel.__name__, "words": textwrap.shorten(words, 220), "file": file, "line": line}


def _first_line(function: Any) -> int:
    """The line of a function's `def`: its decorators come before it."""
    source = function.raw_src
    before = next((n for n, line in enumerate(source) if line.lstrip().startswith("def ")), 0)
    return function.starting_line_number + before


def compiled(user: UserKernel, case: CheckCase, compiler: Compiler) -> dict:
    """Compile the kernels of one case. The answer says which, and what is wrong, or why it was not done."""
    answer: dict = {"error": None, "not_done": ""}
    try:
        loaded = user.load()
        compiler.begin(f"{user.argument} {user.version}", loaded.modules.holds)
        _call(loaded, case)
    except BaseException as error:  # whatever the user's code does, the next case is compiled
        stopped = _stopped(error)
        if stopped is not None:
            answer["error"] = stopped.args[0]
        else:
            words = next(iter(str(error).splitlines()), "")
            answer["not_done"] = f"{type(error).__name__}: {words}"[:200]
    return answer | {"kernels": compiler.names, "left_out": compiler.left_out}


def _stopped(error: BaseException | None) -> Stopped | None:
    """The refusal of the compiler behind an error of the user's code."""
    while error is not None and not isinstance(error, Stopped):
        error = error.__cause__ or error.__context__
    return error


def _call(loaded: LoadedKernel, case: CheckCase) -> None:
    """Call the user's function for the case, and take its gradients."""
    import torch

    from kernels.check.layouts import laid_out
    from kernels.check.user_call import attend_with
    from kernels.problem.inputs import make_d_output, make_inputs

    attend = attend_with(loaded, case)
    *inputs, d_out = laid_out((*make_inputs(case.problem), make_d_output(case.problem)), case.layout)
    learns = case.gradients and not loaded.limits.forward_only
    leaves = [tensor.detach().requires_grad_(learns) for tensor in inputs]
    with loaded.running():
        out = attend(*leaves)[0]
        if learns and isinstance(out, torch.Tensor) and out.requires_grad:
            torch.autograd.grad(out, leaves, d_out, allow_unused=True)


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (it is open as long as the process)
    os.dup2(log.fileno(), 2)
    os.dup2(2, 1)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    os.environ[COMPILES_ONLY] = "1"
    import kernels.device.runtime  # noqa: F401  (before triton)

    compiler = Compiler(log)
    while True:
        question = json.loads(lines.get())
        user = UserKernel.unchecked(question["kernel"])
        answer = compiled(user, CheckCase.from_dict(question["case"]), compiler)
        answers.write(json.dumps(answer | {"number": question["number"]}) + "\n")
        answers.flush()


def _read(lines: queue.Queue[str]) -> None:
    """Queue lines. When the client is gone, end the process, even in the middle of a case."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
