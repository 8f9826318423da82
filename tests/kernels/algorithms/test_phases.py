"""Declared phases are possible: each finds on the chip what it needs, and stores what was made there."""

from dataclasses import replace

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.trace.algorithm import Algorithm, Kernel, Phase

FOLLOWS = {"lse": {"m", "l"}}
"""What a store computes on the way: lse = m + log l."""


def impossible(entry: Algorithm) -> list[str]:
    """What phases need or store although it is not there, at the first tile step, with and without a mask."""
    found: dict[str, None] = {}
    for masked in (True, False):
        chip: set[str] = set()
        made: set[str] = set()
        for before, kernel in zip((None, *entry.kernels), entry.kernels, strict=False):
            if before is None or not same_program(before, kernel):
                chip, made = set(), set()
            if not any(phase.makes for phase in kernel.before):
                chip |= unseen_sums(kernel)
            for phase in kernel.phases:
                if masked or not phase.only_masked:
                    found |= dict.fromkeys(f"{kernel.name}, {words}" for words in missing(phase, chip, made))
    return list(found)


def same_program(before: Kernel, kernel: Kernel) -> bool:
    """Whether a kernel is a later loop of the same program, so that it finds what the loop before left."""
    source = before.source
    return (source.module, source.function) == (kernel.source.module, kernel.source.function)


def unseen_sums(kernel: Kernel) -> set[str]:
    """Sums of a kernel none of whose phases starts one: what some phase both needs and makes."""
    phases = (phase for phase in kernel.phases if not phase.only_masked)
    return {name for phase in phases for name in {*phase.needs} & {*phase.makes}}


def missing(phase: Phase, chip: set[str], made: set[str]) -> list[str]:
    """What one phase lacks; adds to `chip` and `made` what it leaves there."""
    chip |= {*phase.loads}
    needs = {*phase.needs} - chip
    for left in (chip, made):
        left |= {*phase.makes}
    stored = {name.removeprefix("partial ") for name in phase.stores} - made
    stored = {name for name in stored if not (name in FOLLOWS and FOLLOWS[name] <= {*phase.needs} & made)}
    return [f"{phase.name} needs {name}" for name in sorted(needs)] + [
        f"{phase.name} stores {name}" for name in sorted(stored)
    ]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_phases_need_and_store_only_what_is_there(name):
    assert impossible(ALGORITHMS[name]) == []


def changed(entry, kernel_name, phase_name, **changes):
    """The entry with one phase changed, or left out if nothing is to be changed."""
    kernel = entry.kernel(kernel_name)

    def planted(phases):
        for phase in phases:
            if phase.name != phase_name:
                yield phase
            elif changes:
                yield replace(phase, **changes)

    parts = {part: tuple(planted(getattr(kernel, part))) for part in ("before", "step", "after")}
    kernels = tuple(replace(kernel, **parts) if one is kernel else one for one in entry.kernels)
    assert kernels != entry.kernels
    return replace(entry, kernels=kernels)


@pytest.mark.parametrize(
    ("algorithm", "kernel", "phase", "changes", "found"),
    [
        ("flash2", "_attn_fwd", "load V", {}, ["PV needs V"]),
        ("flash2", "_attn_fwd", "exponentials", {"makes": ()}, ["rescale needs P", "PV needs P"]),
        ("flash2", "_attn_fwd", "store O, lse", {"needs": ("O", "m")}, ["store O, lse stores lse"]),
        ("backward", "_attn_bwd_dq", "load Q, dO, lse, D", {"loads": ("Q", "dO", "lse")}, ["dS needs D"]),
        ("row_wise", "row-wise, values", "softmax", {"makes": ("l", "O")}, ["PV needs P"]),
    ],
)
def test_a_wrong_entry_is_found(algorithm, kernel, phase, changes, found):
    planted = impossible(changed(ALGORITHMS[algorithm], kernel, phase, **changes))
    assert [words.removeprefix(f"{kernel}, ") for words in planted] == found
