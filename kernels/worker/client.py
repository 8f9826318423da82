"""The client of the worker process: a queue of jobs, one at a time, with cancel, time limit and typed failures.

Safe to use from many threads. Imports neither torch nor triton.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import itertools
import queue
import subprocess
import sys
import threading
import time

from kernels import ROOT
from kernels.device.backend import DeviceInfo
from kernels.problem import InvalidProblem
from kernels.worker.server import read_message, write_message

START_LIMIT_S = 120.0


class JobFailure(Exception):
    """A job that gave no result. The subclasses say why."""


class OutOfMemory(JobFailure):
    """The device had too little memory. `asked_bytes` is None where the allocator did not say."""

    def __init__(self, asked_bytes: int | None, free_bytes: int) -> None:
        self.asked_bytes, self.free_bytes = asked_bytes, free_bytes
        asked = f"{asked_bytes / 1e9:,.2f} GB" if asked_bytes is not None else "more memory"
        super().__init__(
            f"Out of memory: asked for {asked}, {free_bytes / 1e9:,.2f} GB free. Choose a smaller problem."
        )


class TimedOut(JobFailure):
    """The job ran longer than its limit, and the worker was restarted."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(
            f"Stopped after {limit_s:g} s, the time limit. Choose a smaller problem or larger tiles."
        )


class Crashed(JobFailure):
    """The worker process ended in the middle of the job. `exit_code` is negative for a signal."""

    def __init__(self, exit_code: int | None, detail: str = "") -> None:
        self.exit_code = exit_code
        how = (
            "no process"
            if exit_code is None
            else f"signal {-exit_code}"
            if exit_code < 0
            else f"exit status {exit_code}"
        )
        super().__init__(
            f"The worker process crashed ({how}){': ' + detail if detail else ''}. It was restarted; try again."
        )


class Cancelled(JobFailure):
    """Somebody cancelled the job."""

    def __init__(self) -> None:
        super().__init__("Cancelled.")


class Job:
    """One job in the queue or on the device. Made by `WorkerClient.submit`."""

    def __init__(self, client: WorkerClient, request: dict, time_limit_s: float, blob: bytes = b"") -> None:
        self.request = request
        self.blob = blob
        """Bytes that travel with the request; let go of once the job has ended."""
        self.time_limit_s = time_limit_s
        self.fraction = 0.0
        self.label = "waiting"
        self._client = client
        self._finished = threading.Event()
        self._answer: tuple[dict, bytes] | None = None
        self._failure: Exception | None = None
        self.cancelled = False
        self.started = False
        """Whether a worker process has begun it. A job that died with its worker before that is handed to the next one."""

    @property
    def done(self) -> bool:
        """Whether it has ended, with an answer or a failure."""
        return self._finished.is_set()

    @property
    def jobs_ahead(self) -> int:
        """Jobs that the device does before this one; 0 while it runs."""
        return self._client.jobs_ahead(self)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, at most `timeout_s`; True if the job has ended."""
        return self._finished.wait(timeout_s)

    def result(self, timeout_s: float | None = None) -> tuple[dict, bytes]:
        """The answer and its bytes. Raises InvalidProblem, a JobFailure, or TimeoutError if it has not ended by then."""
        if not self._finished.wait(timeout_s):
            raise TimeoutError(f"the job has not ended after {timeout_s} s")
        if self._failure is not None:
            raise self._failure
        return self._answer

    def cancel(self) -> None:
        """Take the job out of the queue, or stop it by restarting the worker. No effect once it has ended."""
        self._client.cancel(self)

    def finish(self, answer: tuple[dict, bytes] | None = None, failure: Exception | None = None) -> None:
        """Called by the client, once."""
        self._answer, self._failure, self.blob = answer, failure, b""
        self._finished.set()


class WorkerClient:
    """Starts the worker process, restarts it when it dies, and passes it one job at a time."""

    def __init__(
        self, time_limit_s: float = 120.0, memory_limit_bytes: int | None = None, kernel: str = ""
    ) -> None:
        """`kernel` is the user's own "file.py:function"; only a worker that was started with it can run it."""
        self.time_limit_s = time_limit_s
        self.device: DeviceInfo | None = None
        self.start_failure: str | None = None
        self._arguments = [] if memory_limit_bytes is None else ["--memory-limit", str(memory_limit_bytes)]
        self._arguments += ["--kernel", kernel] if kernel else []
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._queue: collections.deque[Job] = collections.deque()
        self._running: Job | None = None
        self._closed = False
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen | None = None
        self._messages: queue.Queue = queue.Queue()
        self._ready = threading.Event()
        self._stderr: collections.deque[str] = collections.deque(maxlen=20)
        self._dispatcher = threading.Thread(target=self._dispatch, daemon=True, name="worker-client")
        self._dispatcher.start()
        atexit.register(self.close)

    def submit(
        self, job: str, *, time_limit_s: float | None = None, blob: bytes = b"", **parameters: object
    ) -> Job:
        """Queue a job of `kernels.worker.server.JOBS`; the parameters must be JSON, `blob` reaches it as request["blob"]."""
        handle = Job(
            self,
            {"id": next(self._numbers), "job": job, **parameters},
            time_limit_s or self.time_limit_s,
            blob,
        )
        with self._wake:
            if self._closed:
                raise RuntimeError("the worker client is closed")
            self._queue.append(handle)
            self._wake.notify()
        return handle

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the worker has said what device it has; True if it has."""
        return self._ready.wait(timeout_s)

    @property
    def queue_length(self) -> int:
        """Jobs waiting or running."""
        with self._lock:
            return len(self._queue) + (self._running is not None)

    @property
    def process_id(self) -> int | None:
        """Of the worker process; None while there is none."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def jobs_ahead(self, job: Job) -> int:
        """Jobs that the device does before this one; 0 while it runs, and once it has ended."""
        with self._lock:
            if job not in self._queue:
                return 0
            return self._queue.index(job) + (self._running is not None)

    def cancel(self, job: Job) -> None:
        """See `Job.cancel`."""
        with self._lock:
            if job in self._queue:
                self._queue.remove(job)
                job.finish(failure=Cancelled())
            elif job is self._running and not job.done:
                job.cancelled = True
                self._kill()

    def close(self) -> None:
        """Stop the worker; jobs in the queue are cancelled."""
        atexit.unregister(self.close)
        with self._wake:
            self._closed = True
            waiting, running = list(self._queue), self._running
            self._queue.clear()
            if running is not None:
                running.cancelled = True
            self._kill()
            self._wake.notify()
        for job in waiting:
            job.finish(failure=Cancelled())

    def _dispatch(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
            if self.process_id is None:
                self._start()
                continue  # a job that came while the start failed is for the next try, not for the process that is gone
            with self._wake:
                while not self._queue and not self._closed and self.process_id is not None:
                    self._wake.wait(0.5)  # also notices a worker that died between jobs
                if self._closed:
                    return
                if not self._queue:
                    continue
                job = self._running = self._queue.popleft()
            try:
                self._run(job)
            finally:
                with self._lock:
                    self._running = None

    def _start(self) -> None:
        command = [sys.executable, "-m", "kernels.worker", *self._arguments]
        pipe = subprocess.PIPE
        with self._lock:  # so that close() either comes before, or finds the process and ends it
            if self._closed:
                return
            try:
                self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)
            except OSError as error:  # no memory or no file descriptors left, say
                self._process, self.start_failure = None, f"it cannot be started: {error}"
        if self._process is None:
            self._fail_waiting(None)
            return
        self._messages = queue.Queue()
        self._stderr.clear()
        threading.Thread(target=self._read, args=(self._process, self._messages), daemon=True).start()
        threading.Thread(target=self._drain, args=(self._process,), daemon=True).start()
        try:
            message = self._messages.get(timeout=START_LIMIT_S)
        except queue.Empty:
            self._kill()
            message = None
        if message is None:
            self._process.wait()
            self.start_failure = self._last_words() or f"the worker did not start within {START_LIMIT_S:g} s"
            self._fail_waiting(self._process.returncode)
            return
        self.start_failure = None
        self.device = DeviceInfo(**message[0]["device"])
        self._ready.set()

    def _fail_waiting(self, exit_code: int | None) -> None:
        """A worker that cannot start answers every job in the queue, then is given some time before the next try."""
        with self._lock:
            waiting = list(self._queue)
            self._queue.clear()
        for job in waiting:
            job.finish(failure=Crashed(exit_code, self.start_failure))
        time.sleep(1.0)

    def _run(self, job: Job) -> None:
        deadline = time.monotonic() + job.time_limit_s
        with contextlib.suppress(OSError):  # it died before the job reached it: the reader says so below
            write_message(self._process.stdin, job.request, job.blob)
        while True:
            try:
                message = self._messages.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                self._kill()
                self._process.wait()
                job.finish(failure=TimedOut(job.time_limit_s))
                return
            if message is None:
                self._process.wait()
                if not job.started and not job.cancelled:
                    job.started = True  # once: a second death is the job's own
                    with self._lock:
                        self._queue.appendleft(job)
                    return
                job.finish(
                    failure=Cancelled()
                    if job.cancelled
                    else Crashed(self._process.returncode, self._last_words())
                )
                return
            if self._take(job, *message):
                return

    def _take(self, job: Job, message: dict, blob: bytes) -> bool:
        """Apply one message of the worker to the job; True when it was the last one."""
        if message["event"] == "started":
            job.started = True
            return False
        if message["event"] == "progress":
            job.fraction, job.label = message["fraction"], message["label"]
            return False
        if message["event"] == "done":
            job.finish(answer=(message, blob))
        elif message["kind"] == "invalid_problem":
            failure = InvalidProblem.__new__(InvalidProblem, message["message"])
            failure.args, failure.field = (message["message"],), message["field"]
            job.finish(failure=failure)
        elif message["kind"] == "out_of_memory":
            job.finish(failure=OutOfMemory(message["asked"], message["free"]))
        elif message["kind"] == "crashed":
            self._process.wait()
            job.finish(failure=Crashed(self._process.returncode, message["message"]))
        else:
            job.finish(failure=JobFailure(message["message"]))
        return True

    @staticmethod
    def _read(process: subprocess.Popen, messages: queue.Queue) -> None:
        while (message := read_message(process.stdout)) is not None:
            messages.put(message)
        messages.put(None)

    def _drain(self, process: subprocess.Popen) -> None:
        for line in process.stderr:
            self._stderr.append(line.decode(errors="replace").rstrip())

    def _last_words(self) -> str:
        return next((line for line in reversed(self._stderr) if line.strip()), "")

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
