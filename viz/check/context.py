"""What every panel of the Check page needs to ask the worker for something."""

from dataclasses import dataclass

from kernels.check.case.cases import USERS, CheckCase
from kernels.check.requests import CheckRequest, checked_result
from kernels.check.result import CheckResult
from kernels.check.subject.user_kernel import UserKernel
from kernels.worker.client import Job
from viz.shared.runs import RunStore


@dataclass(frozen=True)
class CheckContext:
    """The worker's store, the backend ("cuda" or "interpreter"), and what the user brought along."""

    store: RunStore
    backend: str
    users: tuple[UserKernel, ...]
    """The kernels that the command line named."""

    def checks(self, *cases: CheckCase) -> tuple[CheckRequest, ...]:
        """The requests for the verdicts of cases, with each kernel's version as it is now."""
        versions = {name: self.version(name) for name in {case.kernel for case in cases}}
        return tuple(CheckRequest(case, versions[case.kernel]) for case in cases)

    def user(self, kernel: str) -> UserKernel | None:
        """The user's kernel of that name; None for other kernels."""
        return dict(zip(USERS, self.users, strict=False)).get(kernel)

    def version(self, kernel: str) -> str:
        """Tells results of the user's kernel apart after its file was saved again; "" for other kernels."""
        user = self.user(kernel)
        return user.version if user else ""

    def result(self, job: Job[CheckResult], case: CheckCase) -> CheckResult:
        """What a check that has ended says, also of a kernel that crashed or hung."""
        user = self.user(case.kernel)
        return checked_result(job, case, user.name if user else "", self.store.client.device)
