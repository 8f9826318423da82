"""A worker's client without a worker: the test ends its jobs by hand."""

from kernels.worker.client import Job
from kernels.worker.failures import Cancelled
from kernels.worker.process import decode, encode


class FakeClient:
    """Keeps the jobs that were submitted to it."""

    def __init__(self, device=None):
        self.device = device
        self.jobs = []
        self.ahead = 0

    def submit(self, request, time_limit_s=None):
        self.jobs.append(Job(self, request, time_limit_s or 1.0))
        return self.jobs[-1]

    def jobs_ahead(self, job):
        return self.ahead

    def withdraw(self, job):
        """Every job that has not begun waits."""
        if job.started or job.done:
            return False
        job.finish(failure=Cancelled())
        return True

    def cancel(self, job):
        if not job.done:
            job.finish(failure=Cancelled())


def end(job):
    """Carry the job out, as the worker would."""
    job.finish(answer=decode(encode(job.request.run(lambda fraction, label: None))))
