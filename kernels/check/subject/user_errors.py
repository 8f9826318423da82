"""What an error of the user's code says to its author: where it was raised, and whether it is a refusal."""

import dis
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from kernels.device.no_gpu import needs_gpu
from kernels.worker.failures import Crashed, JobFailure

REFUSALS = (AssertionError, NotImplementedError, TypeError, ValueError)
"""Errors by which a function says what it does not take, if its own code raises them before it computes."""
TRITON_LIMITS = (
    "power of 2",
    "power of two",
    "must be >= 16",
    "must be at least 16",
    "Input shapes should have",
)
"""Words of Triton's own refusals of a shape, when it reads a kernel."""
TORCH_CHECKS = "_check"
"""Beginning of the functions of torch by which code refuses its arguments, such as torch._check_value."""


class Refused(Exception):
    """The kernel does not take this problem; the message is the reason that it gives."""


class WithTrace(Exception):
    """An error with the traceback from the first line of the user's code on; "" if none was reached."""

    def __init__(self, words: str, trace: str = "") -> None:
        super().__init__(words)
        self.trace = trace


class UserKernelError(WithTrace):
    """The user's file could not be imported, or has no such function."""


class Broken(WithTrace):
    """The kernel took the problem, but raised an error or did not return an attention output."""

    @classmethod
    def of(cls, words: str, error: "Refused | Broken") -> "Broken":
        """What a refusal or an error of a later call is: a failure, with the error's trace."""
        failure = cls(f"{words}: {error}", getattr(error, "trace", ""))
        failure.__cause__ = error
        return failure


def crash_words(exit_code: int | None, detail: str) -> str:
    """What the end of a process says about its kernel. `exit_code` is negative for a signal."""
    if exit_code is None or exit_code >= 0:
        why = f": {detail}" if detail else ""
        return f"it ended the process with exit status {exit_code}, without a result{why}"
    number = signal.Signals(-exit_code)
    status = f"exit status {128 + number} in a shell"
    return f"it crashed the process with {number.name} ({status}): {signal.strsignal(number)}"


def ended_by(error: BaseException | None) -> str:
    """What `CheckResult.ended` says of a case that this error ended, or one that it was raised from."""
    while error is not None and not isinstance(error, JobFailure):
        error = error.__cause__
    if not isinstance(error, Crashed) or error.exit_code is None:
        return type(error).__name__ if error else ""
    return f"exit {error.exit_code}" if error.exit_code >= 0 else signal.Signals(-error.exit_code).name


def root_cause(error: BaseException) -> BaseException:
    """The error that Triton's were raised for: its interpreter and its compiler wrap each in their own.

    An error that the user's code raises from another one has the user's words, so it is the cause itself.
    """
    while error.__cause__ is not None and _is_of_library(_last_frame(error)):
        error = error.__cause__
    return error


def user_frames(error: BaseException, holds: Callable[[str], bool]) -> list[traceback.FrameSummary]:
    """The user's lines, from the first that was called to the one that failed."""
    frames: list[traceback.FrameSummary] = []
    link, cause = error, root_cause(error)
    while True:
        lines = traceback.StackSummary.extract(traceback.walk_tb(link.__traceback__))
        frames += [frame for frame in lines if holds(frame.filename) and frame not in frames]
        if link is cause or link.__cause__ is None:
            return frames
        link = link.__cause__


def trace_text(error: BaseException, frames: list[traceback.FrameSummary]) -> str:
    """A traceback of the user's lines alone, as Python writes one."""
    lines = "".join(traceback.format_list(frames))
    return f"Traceback (your code only, most recent call last):\n{lines}{error_words(error)}"


def error_words(error: BaseException) -> str:
    """Type and first line of the error behind an error."""
    error = root_cause(error)
    text = str(error).strip().splitlines()
    words = f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__
    return words.encode(errors="replace").decode()  # half of a character cannot be sent


def judged(
    error: BaseException, holds: Callable[[str], bool], *, phase: str, launched: bool, interpreted: bool
) -> Refused | Broken:
    """What an error of the user's code means for the check.

    It is a refusal if the code itself asserts or raises it before it computes anything (`launched` says
    whether a kernel has run), if Triton does not read the kernel at this shape, or if there is no GPU. Any
    other error is a failure in the `phase`, "forward" or "backward".
    """
    frames, cause = user_frames(error, holds), root_cause(error)
    words = error_words(error)
    if frames:
        words += f" ({Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line})"
    if interpreted and needs_gpu(str(cause)):
        return Refused(f"needs a GPU: {words}")
    on_purpose = (not launched and _raised_on_purpose(cause)) or _is_static(cause)
    says_no = isinstance(cause, REFUSALS) and on_purpose
    if isinstance(cause, NotImplementedError) or says_no:  # its own words may be those of Triton's limits
        return Refused(f"it says that it does not take this problem: {words}")
    if any(limit in str(cause) for limit in TRITON_LIMITS):
        return Refused(f"Triton does not take this shape: {words}")
    what = "ends the process:" if isinstance(cause, SystemExit) else "raised"
    return Broken(f"its {phase} {what} {words}", trace_text(error, frames))


def _raised_on_purpose(cause: BaseException) -> bool:
    """Whether a line asserts or raises it, of the user's code or of a library that it calls.

    Torch and Triton are not such libraries: what they raise is about how they are called.
    """
    last = _last_frame(cause)
    if last is None:
        return False
    if _is_of_library(last):
        return last.tb_frame.f_code.co_name.startswith(TORCH_CHECKS)
    return dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]] == "RAISE_VARARGS"  # assert, too


def _is_static(cause: BaseException) -> bool:
    """Whether a kernel's tl.static_assert raised it: a compiler refuses the kernel for it."""
    last = _last_frame(cause)
    return last is not None and last.tb_frame.f_code.co_name == "_new_static_assert"


def _last_frame(error: BaseException) -> TracebackType | None:
    link = error.__traceback__
    while link and link.tb_next:
        link = link.tb_next
    return link


def _is_of_library(link: TracebackType | None) -> bool:
    """Whether a line of torch or Triton raised it, not of the user's code or of another library."""
    if link is None:
        return True
    return link.tb_frame.f_globals.get("__name__", "").partition(".")[0] in ("torch", "triton")
