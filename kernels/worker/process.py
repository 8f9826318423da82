"""One worker process as the client sees it: start, messages, end; and the one that runs the user's code.

A message is its length in bytes, then a value in MessagePack. Arrays are sent as .npy files, without pickle.
"""

import collections
import contextlib
import io
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

import msgspec
import numpy as np

from kernels import ROOT
from kernels.worker.failures import Crashed, JobFailure, failure_of
from kernels.worker.requests import Progress, Request

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


ARRAY = 1
"""Code of an array among MessagePack's extensions."""


def _array_file(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=False)
    return msgspec.msgpack.Ext(ARRAY, buffer.getvalue())


def _array(code: int, data: memoryview) -> np.ndarray:
    return np.load(io.BytesIO(data), allow_pickle=False)


encode = msgspec.msgpack.Encoder(enc_hook=_array_file).encode
"""A value as bytes. Dataclasses stand for their fields."""
decode = msgspec.msgpack.Decoder(ext_hook=_array).decode


def read_message(stream: IO[bytes]) -> dict | None:
    """The next message; None if the stream ends before or in the middle of it."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head)
    if size > LARGEST:
        raise ValueError("this is not a message")
    content = stream.read(size)
    return decode(content) if len(content) == size else None


def write_message(stream: IO[bytes], message: dict) -> None:
    """Write one message, and flush."""
    content = encode(message)
    stream.write(len(content).to_bytes(8) + content)
    stream.flush()


class WorkerProcess:
    """A running `python -m kernels.worker`. Raises OSError if the system refuses to start it."""

    def __init__(self, arguments: Sequence[str], *, leads: bool = True) -> None:
        """If it `leads`, the processes that it starts end with it."""
        command, pipe = [sys.executable, "-m", MODULE, *arguments], subprocess.PIPE
        own = SLEEPY | os.environ
        self._leads = leads
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=own, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=leads
        )
        self._messages: queue.Queue[dict | None] = queue.Queue()
        self._lines: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        assert self._process.stderr is not None
        said = io.TextIOWrapper(self._process.stderr, errors="replace")
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._lines.extend, args=(said,), daemon=True).start()

    @property
    def process_id(self) -> int | None:
        """None once the process has ended."""
        return self._process.pid if self._process.poll() is None else None

    def send(self, message: dict) -> None:
        """Write a message. If the process has ended, `receive` will say so."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            write_message(self._process.stdin, message)

    def receive(self, timeout_s: float) -> dict | None:
        """The next message; None once the process has ended. Raises TimeoutError."""
        try:
            return self._messages.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            raise TimeoutError(f"no message within {timeout_s:g} s") from None

    def ask(
        self,
        request: Request,
        limit_s: float,
        progress: Progress | None = None,
        started: Callable[[], None] | None = None,
    ) -> Any:
        """The answer. Raises the failure that it ends with, Crashed if the process ends, or TimeoutError."""
        deadline = time.monotonic() + limit_s
        self.send({"request": request.name, "values": request})
        while (said := self.receive(deadline - time.monotonic())) is not None:
            if said["event"] == "started":
                if started:
                    started()
            elif said["event"] == "progress":
                if progress:
                    progress(said["fraction"], said["label"])
            elif said["event"] == "done":
                return said["answer"]
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


HOST_LIMIT_S = 24 * 3600.0
"""Whoever asks has a limit of its own: when that is over, both processes are ended."""


class Host:
    """The process that runs the user's code, for the one that judges it and never imports it.

    Started when it is first asked, and again after its end.
    """

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
            if self._process.receive(HOST_LIMIT_S) is None:  # "ready"
                raise self._process.ended()
        try:
            return self._process.ask(request, HOST_LIMIT_S, progress)
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
