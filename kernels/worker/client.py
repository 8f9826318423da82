"""The client of the worker process: a queue of jobs, with cancel, time limit and typed failures.

Safe to use from many threads. Imports neither torch nor triton.
"""

import atexit
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from concurrent.futures import Future
from typing import Any, Generic

import msgspec

from kernels.device.backend import DeviceInfo
from kernels.worker.failures import FAILURES, Cancelled, Crashed, JobFailure, TimedOut
from kernels.worker.process import WorkerProcess
from kernels.worker.requests import Request, Result

START_LIMIT_S = 120.0
NEXT_TRY_S = 1.0
"""Pause after a worker that did not start."""


class Job(Generic[Result]):
    """Made by `WorkerClient.submit`. Safe to use from many threads."""

    def __init__(self, client: "WorkerClient", request: Request[Result], time_limit_s: float) -> None:
        self.request = request
        self.time_limit_s = time_limit_s
        self.fraction = 0.0
        self.label = "waiting"
        self.started = False
        """Whether a worker process has begun it. If its worker dies before that, the next one gets it."""
        self.cancelled = False
        self._client = client
        self._end: Future[Result] = Future()

    @property
    def done(self) -> bool:
        return self._end.done()

    @property
    def jobs_ahead(self) -> int:
        """Jobs that run before this one; 0 while it runs and after it has ended."""
        return self._client.jobs_ahead(self)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, at most `timeout_s`; True if the job has ended."""
        return bool(futures.wait([self._end], timeout_s).done)

    def result(self, timeout_s: float | None = 0.0) -> Result:
        """The result, the same object each time.

        Raises InvalidProblem, a JobFailure, or TimeoutError if it has not ended by then.
        """
        return self._end.result(timeout_s)

    def withdraw(self) -> bool:
        """Take the job out of the queue; False if it is not there: it has begun, or ended."""
        return self._client.withdraw(self)

    def cancel(self) -> None:
        """Take the job out of the queue, or stop it by restarting the worker. Does nothing after its end."""
        self._client.cancel(self)

    def finish(self, answer: Any = None, failure: Exception | None = None) -> None:
        """Called by the client, once."""
        if answer is not None:
            self._end.set_result(msgspec.convert(answer, self.request.answers))
        else:
            self._end.set_exception(failure)


class WorkerClient:
    """Starts the worker process, restarts it when it dies, and passes it one job at a time."""

    def __init__(
        self, time_limit_s: float = 120.0, memory_limit_bytes: int | None = None, kernels: Sequence[str] = ()
    ) -> None:
        """`kernels` are the user's own, as "file.py:function": only a worker started with them can run
        them."""
        self.time_limit_s = time_limit_s
        self.device: DeviceInfo | None = None
        self.start_failure: str | None = None
        """Why the last start failed; None if it did not."""
        self._arguments = [] if memory_limit_bytes is None else ["--memory-limit", str(memory_limit_bytes)]
        self._arguments += [word for kernel in kernels for word in ("--kernel", kernel)]
        self._lock = threading.Condition()
        self._queue: list[Job] = []
        self._running: Job | None = None
        self._closed = False
        self._process: WorkerProcess | None = None
        self._ready = threading.Event()
        self._dispatcher = threading.Thread(target=self._dispatch, daemon=True, name="worker-client")
        self._dispatcher.start()
        atexit.register(self.close)

    def submit(self, request: Request[Result], time_limit_s: float | None = None) -> Job[Result]:
        """Queue a request, before the patient ones. Raises RuntimeError once the client is closed."""
        job = Job(self, request, self.time_limit_s if time_limit_s is None else time_limit_s)
        with self._lock:
            if self._closed:
                raise RuntimeError("the worker client is closed")
            patient = [place for place, other in enumerate(self._queue) if other.request.patient]
            self._queue.insert(patient[0] if patient and not request.patient else len(self._queue), job)
            self._lock.notify()
        return job

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the worker has said what device it has; True if it has."""
        return self._ready.wait(timeout_s)

    @property
    def process_id(self) -> int | None:
        """Of the worker process; None if there is none."""
        return self._process.process_id if self._process is not None else None

    def jobs_ahead(self, job: Job) -> int:
        with self._lock:
            return self._queue.index(job) + (self._running is not None) if job in self._queue else 0

    def withdraw(self, job: Job) -> bool:
        with self._lock:
            if job not in self._queue:
                return False
            self._queue.remove(job)
        job.finish(failure=Cancelled())
        return True

    def cancel(self, job: Job) -> None:
        if self.withdraw(job):
            return
        with self._lock:
            if job is self._running and not job.done:
                job.cancelled = True
                self._kill()

    def close(self) -> None:
        """Stop the worker; jobs in the queue are cancelled."""
        atexit.unregister(self.close)
        with self._lock:
            self._closed = True
            waiting, self._queue = self._queue, []
            if self._running is not None:
                self._running.cancelled = True
            self._kill()
            self._lock.notify()
        for job in waiting:
            job.finish(failure=Cancelled())

    def _dispatch(self) -> None:
        """Start workers and hand them jobs until the client is closed."""
        while not self._closed:
            process = self._process
            if process is None or process.process_id is None:
                self._start()
                continue  # a job that arrived during a failed start waits for the next one
            job = self._next_job(process)
            if job is None:
                continue
            try:
                self._run(process, job)
            except Exception as error:  # a fault of ours: it costs this job alone, not those behind it
                process.kill()  # what it would still say of the job must not reach the next one
                process.wait()
                if not job.done:
                    job.finish(failure=JobFailure(f"{type(error).__name__}: {error}"))
            finally:
                with self._lock:
                    self._running = None

    def _next_job(self, process: WorkerProcess) -> Job | None:
        """Wait for a job; None if the client was closed or the worker died meanwhile."""
        with self._lock:
            while not self._queue and not self._closed and process.process_id is not None:
                self._lock.wait(0.5)  # to notice a worker that dies between jobs
            if self._closed or not self._queue:
                return None
            self._running = self._queue.pop(0)
        return self._running

    def _start(self) -> None:
        exit_code = None
        try:
            with self._lock:  # so that close() runs either before the start, or after it and ends the process
                if self._closed:
                    return
                process = self._process = WorkerProcess(self._arguments)
            try:
                message = process.receive(START_LIMIT_S)
            except TimeoutError:
                process.kill()
                message = None
            if message is not None:
                self.start_failure, self.device = None, DeviceInfo(**message["device"])
                self._ready.set()
                return
            exit_code = process.wait()
            silent = f"the worker did not start within {START_LIMIT_S:g} s"
            self.start_failure = process.last_words() or silent
        except OSError as error:  # such as too little memory or too few file descriptors
            self.start_failure = f"it cannot be started: {error}"
        with self._lock:
            waiting, self._queue = self._queue, []
        for job in waiting:
            job.finish(failure=Crashed(exit_code, self.start_failure))
        time.sleep(NEXT_TRY_S)

    def _run(self, process: WorkerProcess, job: Job) -> None:
        """Send the job to the worker, and take its messages until the job has ended.

        If the worker dies before it has begun the job, the next worker gets it, but only once.
        """

        def progress(fraction: float, label: str) -> None:
            job.fraction, job.label = fraction, label

        def started() -> None:
            job.started = True

        try:
            job.finish(process.ask(job.request, job.time_limit_s, progress, started))
        except TimeoutError:
            process.kill()
            process.wait()
            job.finish(failure=TimedOut(job.time_limit_s))
        except Crashed as failure:
            if job.cancelled or job.started:
                job.finish(failure=Cancelled() if job.cancelled else failure)
                return
            job.started = True
            with self._lock:
                self._queue.insert(0, job)
        except FAILURES as failure:
            job.finish(failure=failure)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
