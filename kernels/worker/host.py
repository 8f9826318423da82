"""The process that runs the user's code, for the one that judges it and never imports it."""

from collections.abc import Sequence
from typing import Any

from kernels.worker.failures import JobFailure
from kernels.worker.process import WorkerProcess
from kernels.worker.requests import Progress, Request

LIMIT_S = 24 * 3600.0
"""Whoever asks has a limit of its own: when that is over, both processes are ended."""


class Host:
    """Started when it is first asked, and again after its end."""

    def __init__(self) -> None:
        self.kernels: Sequence[str] = ()
        """The user's kernels, as "file.py:function", that requests name as those of the command line."""
        self.changes = 0
        """Starts and ends of the process so far: what was opened in it is lost with each."""
        self._process: WorkerProcess | None = None

    def ask(self, request: Request, progress: Progress | None = None) -> Any:
        """What the host answers. Raises InvalidProblem, and JobFailure, after which the host starts anew."""
        if self._process is None or self._process.process_id is None:
            named = [word for kernel in self.kernels for word in ("--kernel", kernel)]
            self._process = WorkerProcess(["--host", *named], leads=False)
            self.changes += 1
            if self._process.receive(LIMIT_S) is None:  # "ready"
                raise self._process.ended()
        try:
            return self._process.ask(request, LIMIT_S, progress)
        except JobFailure:
            self.end()
            raise

    def end(self) -> None:
        """End the process, whatever it does. The next request starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self.changes += 1


HOST = Host()
