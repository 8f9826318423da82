"""What the check of a user's kernel says of its memory, and of the order in which its programs run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from kernels.check.bits import bits_of, difference_words
from kernels.check.cases import USERS, CheckCase
from kernels.check.result import Repeats, TensorCheck
from kernels.check.runs import Runs
from kernels.check.summary import NEEDS_GPU
from kernels.check.user_errors import Broken, Refused
from kernels.check.user_kernel import UserKernelError, user_kernel
from kernels.device.runtime import INTERPRETED
from kernels.sanitizer.finding import ON_A_GPU, Finding
from kernels.sanitizer.poison import finding_of
from kernels.sanitizer.watch import Watch, watch_memory

REVERSED = "in reverse"
MOST_LOADS = 12
"""Lines whose undefined values are followed, one run for each."""
ORDER_NOT_KNOWN = "whether the order of programs matters cannot be told from these runs"


@contextmanager
def watched(is_users: bool) -> Iterator[Watch]:
    """Watch the memory of a user's kernel in the interpreter. On a GPU, and for ours, watch nothing."""
    with watch_memory(listen=is_users and INTERPRETED) as watch:
        yield watch


@contextmanager
def watched_once_loaded(kernel: str) -> Iterator[Watch]:
    """The same, after the user's file was loaded, which may change the interpreter.

    An access out of bounds is then not made, so that it cannot end the process or change a result.
    """
    if kernel in USERS:
        with suppress(UserKernelError):  # whoever runs the kernel meets it again, and says so
            user_kernel(kernel).load()
    with watched(kernel in USERS) as watch:
        yield watch


def faults(watch: Watch) -> list[str]:
    """What the watch found, for the notes of runs whose verdict is not about memory."""
    return [f"Found while these ran: {finding.sentence}." for finding in watch.findings]


def order_finding(
    watch: Watch, runs: Runs, repeats: Repeats | None, checks: tuple[TensorCheck, ...]
) -> tuple[Finding, ...] | None:
    """Run once more with the programs of each launch in reverse; what differs from the first is a finding.

    What is added up with atomics, or under a lock, is rounded in the order of the programs: then a difference
    up to the error that the rule allows is none. None if nothing can be told.
    """
    if watch.programs < 2 or repeats is None or not repeats.equal:
        return None
    watch.order, first = REVERSED, runs.got
    try:
        again = runs.again()
    except (Broken, Refused) as error:
        words = f"if the programs of each launch run {REVERSED}, {error}"
        return (Finding("order dependence", words),)
    finally:
        watch.order = "as numbered"
    allowed = {check.name: check.tolerance for check in checks} if watch.atomics else {}
    for name, tensor in first.items():
        differ = bits_of(tensor) != bits_of(again[name])
        largest = (tensor.double() - again[name].double()).abs()[differ].nan_to_num(nan=float("inf"))
        if differ.any() and not float(largest.max()) <= allowed.get(name, -1.0):
            words = (
                f"{name} is another one if the programs of each launch run {REVERSED}: "
                f"{difference_words(tensor, again[name])}. A GPU runs them in any order"
            )
            return (Finding("order dependence", words),)
    return ()


def undefined_findings(watch: Watch, runs: Runs, repeats: Repeats | None) -> tuple[Finding, ...]:
    """The loads whose undefined values reach the results, each a finding.

    The kernel runs again without poison, and then with the poison of one line at a time: what differs from
    the run without is that line's. Runs that differ by themselves tell nothing.
    """
    poison = watch.poison
    sites = list(poison.sites)[:MOST_LOADS]
    if not poison.on or not sites or (repeats is not None and not repeats.equal):
        return ()
    findings = []
    try:
        poison.on = False
        without = _again(runs)
        poison.on = True
        for site in sites:
            poison.only = site
            changed = _changed(without, _again(runs))
            if changed:
                findings.append(finding_of(site, changed))
    finally:
        poison.on, poison.only = True, None
    return tuple(findings)


def _again(runs: Runs) -> dict[str, torch.Tensor]:
    """Results of one more run; none if it raises an error."""
    try:
        return runs.again()
    except (Broken, Refused):
        return {}


def _changed(without: dict[str, torch.Tensor], got: dict[str, torch.Tensor]) -> list[str]:
    """Names of the results that are not the same, bit by bit, or that are missing."""
    return [
        name
        for name, tensor in without.items()
        if name not in got or bool((bits_of(tensor) != bits_of(got[name])).any())
    ]


def memory_notes(
    watch: Watch, case: CheckCase, findings: tuple[Finding, ...], order_known: bool
) -> list[str]:
    """What was held against what, and what was not."""
    if case.kernel not in USERS:
        return []
    if not INTERPRETED:
        return [ON_A_GPU]
    if watch.unavailable:
        return [f"Memory was not watched: {watch.unavailable}."]
    notes = []
    if watch.launches and not findings:
        order = "the order of the programs does not matter" if order_known else ORDER_NOT_KNOWN
        notes.append(
            f"Memory, watched in the interpreter over {watch.launches:,} launches: no access leaves its "
            "tensor's memory or reads what nobody wrote, no two programs write different values to one "
            f"place, and {order}."
        )
    if watch.unknown_addresses:
        notes.append(
            f"{watch.unknown_addresses:,} accesses use addresses that were not passed as tensors, such as a "
            "table of pointers: they were not held against any bounds."
        )
    return [*notes, NEEDS_GPU] if watch.launches else notes
