"""What the check of a user's kernel says of its memory, and of the order in which its programs run."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import torch

from kernels.check.case.cases import UPLOADED, USERS, CheckCase
from kernels.check.judge.calls import Calls
from kernels.check.judge.compare import bits_differ, difference
from kernels.check.report.report import NEEDS_GPU
from kernels.check.result import Repeats, TensorCheck
from kernels.check.subject.user_errors import Broken, Refused, UserKernelError
from kernels.check.subject.user_kernel import user_kernel
from kernels.device.runtime import INTERPRETED
from kernels.problem import InvalidProblem
from kernels.sanitizer.finding import ON_A_GPU, Finding
from kernels.sanitizer.poison import finding_of
from kernels.sanitizer.watch import Watch, watch_memory

MOST_LOADS = 12
"""Lines whose undefined values are followed, one run for each."""


def watched(kernel: str) -> AbstractContextManager[Watch]:
    """Watch the memory of a user's kernel in the interpreter. On a GPU, and for ours, watch nothing."""
    return watch_memory(listen=kernel in USERS and INTERPRETED)


@contextmanager
def watched_again(kernel: str) -> Iterator[Watch]:
    """The same to run a case again, after the user's file was loaded, which may change the interpreter.

    An access out of bounds is then not made, so that it cannot end the process or change a result. Raises
    InvalidProblem for a result from a file, which nothing can run.
    """
    if kernel == UPLOADED:
        remedy = "Choose a kernel to run on its Q, K and V."
        raise InvalidProblem("kernel", kernel, "a result from a file cannot be run again", remedy)
    if kernel in USERS:
        with suppress(UserKernelError):  # whoever runs the kernel meets it again, and says so
            user_kernel(kernel).load()
    with watched(kernel) as watch:
        yield watch


def faults(watch: Watch) -> list[str]:
    """What the watch found, for the notes of runs whose verdict is not about memory."""
    return [f"Found while these ran: {finding.sentence}." for finding in watch.findings]


def order_finding(
    watch: Watch, calls: Calls, repeats: Repeats | None, checks: tuple[TensorCheck, ...]
) -> tuple[Finding, ...] | None:
    """Run once more with the programs of each launch in reverse; what differs from the first is a finding.

    What is added up with atomics, or under a lock, is rounded in the order of the programs: then differences
    within the allowed error are ignored. None if nothing can be told.
    """
    if watch.programs < 2 or repeats is None or not repeats.equal:
        return None
    watch.in_reverse = True
    try:
        again = calls.again()
    except (Broken, Refused) as error:
        words = f"if the programs of each launch run in reverse, {error}"
        return (Finding("order dependence", words),)
    finally:
        watch.in_reverse = False
    allowed = {check.name: check.tolerance for check in checks} if watch.atomics else {}
    for name, tensor in calls.got.items():
        found = difference(name, tensor, again[name])
        if found and not found.largest <= allowed.get(name, -1.0):
            first = bits_differ(tensor, again[name]).nonzero()[0].tolist()
            words = (
                f"{found.words}, if the programs of each launch run in reverse: {found.largest:.1e} at most, "
                f"first at {first}. A GPU runs them in any order"
            )
            return (Finding("order dependence", words),)
    return ()


def undefined_findings(watch: Watch, calls: Calls, repeats: Repeats | None) -> tuple[Finding, ...]:
    """The loads whose undefined values reach the results, each a finding.

    The kernel runs again without poison, and then with the poison of one line at a time: what differs from
    the run without is that line's. Calls that differ by themselves tell nothing.
    """
    poison = watch.poison
    sites = list(poison.sites)[:MOST_LOADS]
    if not poison.on or not sites or (repeats is not None and not repeats.equal):
        return ()
    findings = []
    try:
        poison.on = False
        without = _again(calls)
        poison.on = True
        for site in sites:
            poison.only = site
            got = _again(calls)
            changed = [
                name for name, one in without.items() if name not in got or bits_differ(one, got[name]).any()
            ]
            findings += [finding_of(site, changed)] if changed else []
    finally:
        poison.on, poison.only = True, None
    return tuple(findings)


def _again(calls: Calls) -> dict[str, torch.Tensor]:
    try:
        return calls.again()
    except (Broken, Refused):
        return {}


def memory_notes(
    watch: Watch, case: CheckCase, findings: tuple[Finding, ...], order_known: bool
) -> list[str]:
    """What was held against what, and what was not."""
    if case.kernel not in USERS or not INTERPRETED:
        return [ON_A_GPU] if case.kernel in USERS else []
    if watch.unavailable:
        return [f"Memory was not watched: {watch.unavailable}."]
    notes = []
    if watch.launches and not findings:
        unknown = "whether the order of programs matters cannot be told from these runs"
        notes.append(
            f"Memory, watched in the interpreter over {watch.launches:,} launches: no access leaves its "
            "tensor's memory or reads what nobody wrote, no two programs write different values to one "
            f"place, and {'the order of the programs does not matter' if order_known else unknown}."
        )
    if watch.unknown_addresses:
        notes.append(
            f"{watch.unknown_addresses:,} accesses use addresses that were not passed as tensors, such as a "
            "table of pointers: they were not held against any bounds."
        )
    return [*notes, NEEDS_GPU] if watch.launches else notes
