"""What the check of a user's kernel says of its memory, and of the order in which its programs run."""

import torch

from kernels.check.case.cases import USERS
from kernels.check.judge.calls import Calls, bits_differ, difference
from kernels.check.report.report import NEEDS_GPU
from kernels.check.result import Repeats, TensorCheck
from kernels.check.subject.user_errors import Broken, Refused
from kernels.device.runtime import INTERPRETED
from kernels.sanitizer.finding import ON_A_GPU, Finding
from kernels.sanitizer.poison import finding_of

MOST_LOADS = 12
"""Lines whose undefined values are followed, one run for each."""


def order_finding(
    calls: Calls, repeats: Repeats | None, checks: tuple[TensorCheck, ...]
) -> tuple[Finding, ...] | None:
    """Run once more with the programs of each launch in reverse; what differs from the first is a finding.

    What is added up with atomics, or under a lock, is rounded in the order of the programs: then differences
    within the allowed error are ignored. None if nothing can be told.
    """
    subject = calls.subject
    if subject is None or subject.seen.programs < 2 or repeats is None or not repeats.equal:
        return None
    subject.controls.in_reverse = True
    try:
        again = calls.again()
    except (Broken, Refused) as error:
        subject.controls.in_reverse = False
        words = f"if the programs of each launch run in reverse, {error}"
        return (Finding("order dependence", words),) if _again(calls) else None
    finally:
        subject.controls.in_reverse = False
    allowed = {check.name: check.tolerance for check in checks} if subject.seen.atomics else {}
    for name, tensor in calls.got.items():
        differs, largest = bits_differ(tensor, again[name]), difference(tensor, again[name])
        if differs.any() and not largest <= allowed.get(name, -1.0):
            forwards = _again(calls).get(name)
            if forwards is None or bits_differ(tensor, forwards).any():
                return None  # it is not the order: each call gives something else
            words = (
                f"{int(differs.sum()):,} of {tensor.numel():,} elements of {name} differ, by up to "
                f"{largest:.1e}, if the programs of each launch run in reverse, first at "
                f"{differs.nonzero()[0].tolist()}. A GPU runs them in any order"
            )
            return (Finding("order dependence", words),)
    return ()


def undefined_findings(
    calls: Calls, repeats: Repeats | None
) -> tuple[tuple[Finding, ...], dict[str, torch.Tensor]]:
    """The loads whose undefined values reach the results, each a finding; and the results with 0 there.

    The kernel runs again without poison, and then with the poison of one line at a time: what differs from
    the run without is that line's. Calls that differ by themselves tell nothing.
    """
    sites = calls.subject.seen.undefined[:MOST_LOADS] if calls.subject else ()
    if not calls.subject or not sites or (repeats is not None and not repeats.equal):
        return (), {}
    controls = calls.subject.controls
    findings: list[Finding] = []
    try:
        controls.poisons = False
        without = _again(calls)
        controls.poisons = True
        for site in sites:
            controls.only = site
            got = _again(calls)
            changed = [
                name for name, one in without.items() if name not in got or bits_differ(one, got[name]).any()
            ]
            findings += [finding_of(site, changed)] if changed else []
    finally:
        controls.poisons, controls.only = True, None
    return tuple(findings), without if findings else {}


def _again(calls: Calls) -> dict[str, torch.Tensor]:
    try:
        return calls.again()
    except (Broken, Refused):
        return {}


def memory_notes(calls: Calls, findings: tuple[Finding, ...], order_known: bool) -> list[str]:
    """What was held against what, and what was not."""
    if calls.case.kernel not in USERS or calls.subject is None:
        return []
    seen = calls.subject.seen
    if not INTERPRETED:
        return [ON_A_GPU]
    notes = []
    if seen.watched and not findings:
        unknown = "whether the order of programs matters cannot be told from these runs"
        notes.append(
            f"Memory, watched in the interpreter over {seen.watched:,} launches: no access leaves its "
            "tensor's memory or reads what nobody wrote, no two programs write different values to one "
            f"place, and {'the order of the programs does not matter' if order_known else unknown}."
        )
    return [*notes, NEEDS_GPU] if seen.watched else notes
