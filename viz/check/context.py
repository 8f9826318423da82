"""What every panel of the Check page needs to ask the worker for something."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.check.cases import USER, CheckCase
from kernels.check.user_kernel import UserKernel
from kernels.worker.requests import CheckRequest, SensitivityRequest
from viz.shared.runs import RunStore


@dataclass(frozen=True)
class CheckContext:
    """The worker's store, the backend ("cuda" or "interpreter"), and what the user brought along."""

    store: RunStore
    backend: str
    user: UserKernel | None
    """The kernel that the command line named."""
    file: bytes = b""
    """The uploaded file; empty without one."""
    file_name: str = ""

    def check(self, case: CheckCase) -> CheckRequest:
        """The request for the verdict of a case."""
        return CheckRequest(case, self.version(case))

    def sensitivity(self, case: CheckCase) -> SensitivityRequest:
        """The request for the sensitivity of a case."""
        return SensitivityRequest(case, self.version(case))

    def version(self, case: CheckCase) -> str:
        """Tells results of the user's kernel apart after its file was saved again; "" for other kernels."""
        return f"{self.user.argument} {self.user.version}" if self.user and case.kernel == USER else ""
