"""One worker process as the client sees it: start, messages, end.

A message is one line of JSON, then as many raw bytes as the line says.
"""

import collections
import contextlib
import io
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import IO

from kernels import ROOT

MODULE = "kernels.worker"
"""What runs in it: `python -m kernels.worker`."""
SLEEPY = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment in which torch's threads sleep while they wait for one another. By default they spin, and take
the processor from the app, from the browser and from each other. Measured on two cores, beside other work:
the battery of flash2 in the interpreter, 26 cases then, took 27 s with it, and 53 s without."""
KEPT_LINES = 20
"""Lines of standard error that are kept, to say why the process failed."""


def read_message(stream: IO[bytes]) -> tuple[dict, bytes] | None:
    """The next message and its bytes; None if the stream ends before or in the middle of it."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    blob = stream.read(message["size"])
    return (message, blob) if len(blob) == message["size"] else None


def write_message(stream: IO[bytes], message: dict, blob: bytes = b"") -> None:
    """Write one message, in which dataclasses stand for their fields, and its bytes, and flush."""
    stream.write(json.dumps(message | {"size": len(blob)}, default=asdict).encode() + b"\n" + blob)
    stream.flush()


class WorkerProcess:
    """A running `python -m kernels.worker`. Raises OSError if the system refuses to start it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        command, pipe = [sys.executable, "-m", MODULE, *arguments], subprocess.PIPE
        own = SLEEPY | os.environ | dict(environment or {})
        self._process = subprocess.Popen(command, cwd=ROOT, env=own, stdin=pipe, stdout=pipe, stderr=pipe)
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

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()

    def wait(self) -> int:
        """Wait for the end; returns the exit status, negative for a signal."""
        return self._process.wait()

    def last_words(self) -> str:
        """The last line that it wrote to standard error; "" if there is none."""
        return next((line.rstrip() for line in reversed(self._lines) if line.strip()), "")

    def _read(self) -> None:
        assert self._process.stdout is not None
        while (message := read_message(self._process.stdout)) is not None:
            self._messages.put(message)
        self._messages.put(None)
