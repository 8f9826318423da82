"""One worker process as the client sees it: start, messages, end.

A message is one line of JSON, then as many raw bytes as the line says.
"""

import collections
import contextlib
import io
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import IO

from kernels import ROOT
from kernels.worker.failures import Crashed, failure_of
from kernels.worker.requests import Answer, Progress, Request

MODULE = "kernels.worker"
"""What runs in it: `python -m kernels.worker`."""
SLEEPY = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment in which torch's threads sleep while they wait for one another. By default they spin, and take
the processor from the app, from the browser and from each other. Measured on two cores, beside other work:
the battery of flash2 in the interpreter, 26 cases then, took 27 s with it, and 53 s without."""
LARGEST = 2**36
"""No message has so many bytes."""
KEPT_LINES = 20
"""Lines of standard error that are kept, to say why the process failed."""


def read_message(stream: IO[bytes]) -> tuple[dict, bytes] | None:
    """The next message and its bytes; None if the stream ends before or in the middle of it."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    blob = stream.read(min(message["size"], LARGEST))
    return (message, blob) if len(blob) == message["size"] else None


def write_message(stream: IO[bytes], message: dict, blob: bytes = b"") -> None:
    """Write one message, in which dataclasses stand for their fields, and its bytes, and flush."""
    stream.write(json.dumps(message | {"size": len(blob)}, default=asdict).encode() + b"\n" + blob)
    stream.flush()


class WorkerProcess:
    """A running `python -m kernels.worker`. Raises OSError if the system refuses to start it."""

    def __init__(self, arguments: Sequence[str], *, leads: bool = True) -> None:
        """If it `leads`, the processes that it starts end with it."""
        command, pipe = [sys.executable, "-m", MODULE, *arguments], subprocess.PIPE
        own = SLEEPY | os.environ
        self._leads = leads
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=own,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=leads,
        )
        self._messages: queue.Queue[tuple[dict, bytes] | None] = queue.Queue()
        self._lines: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        assert self._process.stderr is not None
        said = io.TextIOWrapper(self._process.stderr, errors="replace")
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._lines.extend, args=(said,), daemon=True).start()

    @property
    def process_id(self) -> int | None:
        """None once the process has ended."""
        return self._process.pid if self._process.poll() is None else None

    def send(self, message: dict, blob: bytes) -> None:
        """Write a message. If the process has ended, `receive` will say so."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            write_message(self._process.stdin, message, blob)

    def receive(self, timeout_s: float) -> tuple[dict, bytes] | None:
        """The next message and its bytes; None once the process has ended. Raises TimeoutError."""
        try:
            return self._messages.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            raise TimeoutError(f"no message within {timeout_s:g} s") from None

    def ask(
        self,
        request: Request,
        blob: bytes,
        limit_s: float,
        progress: Progress | None = None,
        started: Callable[[], None] | None = None,
    ) -> Answer:
        """Do a job. Raises the failure that it ends with, Crashed if the process ends, or TimeoutError."""
        deadline = time.monotonic() + limit_s
        self.send({"request": request.name, "values": request}, blob)
        while (message := self.receive(deadline - time.monotonic())) is not None:
            said, blob = message
            if said["event"] == "started":
                if started:
                    started()
            elif said["event"] == "progress":
                if progress:
                    progress(said["fraction"], said["label"])
            elif said["event"] == "done":
                return said["answer"], blob
            else:
                raise failure_of(said, self.wait() if said["kind"] == "crashed" else None)
        raise self.ended()

    def ended(self) -> Crashed:
        """What is to be said of its end, for which this waits."""
        return Crashed(self.wait(), self.last_words())

    def kill(self) -> None:
        if self._process.poll() is None:
            if self._leads:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def wait(self) -> int:
        """Wait for the end; returns the exit status, negative for a signal."""
        return self._process.wait()

    def last_words(self) -> str:
        """The last line that it wrote to standard error; "" if there is none."""
        return next((line.rstrip() for line in reversed(self._lines) if line.strip()), "")

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while (message := read_message(self._process.stdout)) is not None:
                self._messages.put(message)
        except (ValueError, LookupError, TypeError, MemoryError):  # the user's code wrote there, too
            self.kill()
        self._messages.put(None)
