"""A request in the queue or on the device, as the client sees it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic

from kernels.worker.requests import Request, Result

if TYPE_CHECKING:
    from kernels.worker.client import WorkerClient


class Job(Generic[Result]):
    """Made by `WorkerClient.submit`. Safe to use from many threads."""

    def __init__(
        self, client: WorkerClient, request: Request[Result], time_limit_s: float, blob: bytes
    ) -> None:
        self.request = request
        self.time_limit_s = time_limit_s
        self.blob = blob
        """Bytes that are sent with the request; dropped when the job has ended."""
        self.fraction = 0.0
        self.label = "waiting"
        self.started = False
        """Whether a worker process has begun it. If its worker dies before that, the next one gets it."""
        self.cancelled = False
        self._client = client
        self._finished = threading.Event()
        self._reading = threading.Lock()
        self._answer: tuple[dict, bytes] | None = None
        self._result: Result | None = None
        self._failure: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether it has ended, with a result or a failure."""
        return self._finished.is_set()

    @property
    def jobs_ahead(self) -> int:
        """Jobs that run before this one; 0 while it runs."""
        return self._client.jobs_ahead(self)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, at most `timeout_s`; True if the job has ended."""
        return self._finished.wait(timeout_s)

    def result(self, timeout_s: float | None = 0.0) -> Result:
        """The result, the same object each time.

        Raises InvalidProblem, a JobFailure, or TimeoutError if it has not ended by then.
        """
        if not self._finished.wait(timeout_s):
            raise TimeoutError(f"the job has not ended after {timeout_s} s")
        if self._failure is not None:
            raise self._failure
        with self._reading:
            if self._answer is not None:
                self._result, self._answer = self.request.result(*self._answer), None
        assert self._result is not None
        return self._result

    def withdraw(self) -> bool:
        """Take the job out of the queue; False if it is not there: it has begun, or ended."""
        return self._client.withdraw(self)

    def cancel(self) -> None:
        """Take the job out of the queue, or stop it by restarting the worker. Does nothing after its end."""
        self._client.cancel(self)

    def finish(self, answer: tuple[dict, bytes] | None = None, failure: Exception | None = None) -> None:
        """Called by the client, once."""
        self._answer, self._failure, self.blob = answer, failure, b""
        self._finished.set()
