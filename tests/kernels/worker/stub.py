"""A worker that begins at once: it serves as the real one does, without torch, requests of its own."""

import time
from dataclasses import dataclass

from kernels.device.backend import DeviceInfo
from kernels.problem import InvalidProblem
from kernels.worker import server
from kernels.worker.process import write_message
from kernels.worker.requests import Request


@dataclass(frozen=True)
class Double(Request):
    """Twice a number. Negative numbers are refused."""

    answers = int
    number: int

    def run(self, progress):
        if self.number < 0:
            raise InvalidProblem("number", self.number, "expected at least 0")
        return 2 * self.number


@dataclass(frozen=True)
class Patient(Double):
    """As Double, after all that is not patient."""

    patient = True


@dataclass(frozen=True)
class Endless(Request):
    """Says that it is half done, and runs until it is stopped."""

    def run(self, progress):
        progress(0.5, "running")
        while True:
            time.sleep(1)


if __name__ == "__main__":
    from tests.kernels.worker import stub  # noqa: F401  these classes as the test knows them

    jobs, out = server.open_pipes()
    write_message(out, {"event": "ready", "device": DeviceInfo("interpreter", "made up", "2", "3", "3")})
    server.serve(jobs, out)
