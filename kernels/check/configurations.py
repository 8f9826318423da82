"""Other configurations of `@triton.autotune` than the first: on a GPU any of them may be the fastest."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch

from kernels.check.runs import Runs
from kernels.check.user_errors import Broken, Refused
from kernels.device.no_gpu import CONFIGURATIONS

MOST_IN_THE_BATTERY = 2
"""Configurations that a case tries besides the first with two runs or fewer, as in the battery. Which ones
changes from case to case, so that all of the cases together try more."""
MOST = 16
"""The same for a case with more runs."""

Judge = Callable[[str, str, torch.Tensor], Broken | None]
"""Words, and the name of a tensor and the tensor, to the failure if it is too far from the exact one."""


def configuration_failure(runs: Runs, judge: Judge) -> Broken | None:
    """What is wrong with another configuration; None if nothing is, or if there is no other.

    The notes of the runs say how many were tried.
    """
    count = max(map(len, CONFIGURATIONS.settings.values()), default=1)
    if count == 1:
        return None
    tried = _numbers(count, runs)
    try:
        for number in tried:
            CONFIGURATIONS.number = number
            if failure := _failure(runs, judge, number, count):
                return failure
    finally:
        CONFIGURATIONS.number = 0
    runs.own_notes.append(
        f"Configurations of @triton.autotune: {1 + len(tried)} of {count} were run on this case (number "
        f"{', '.join(str(number + 1) for number in [0, *tried])})."
    )
    return None


def _numbers(count: int, runs: Runs) -> list[int]:
    """Numbers of the configurations to try, counted from 0, without the first."""
    most = MOST if runs.case.repeats > 2 else MOST_IN_THE_BATTERY
    start = zlib.crc32(runs.case.words.encode())
    return sorted(1 + (start + step) % (count - 1) for step in range(min(most, count - 1)))


def _failure(runs: Runs, judge: Judge, number: int, count: int) -> Broken | None:
    words = f"with configuration {number + 1} of {count} of @triton.autotune"
    try:
        got = runs.again()
    except Refused as error:
        runs.own_notes.append(f"Not checked {words}: {error}.")
        return None
    except Broken as error:
        return Broken(f"{words}{_settings(number)} it failed: {error}", error.trace)
    for name, tensor in got.items():
        if failure := judge(
            f"{words}{_settings(number)} a result is wrong, unlike with the first", name, tensor
        ):
            return failure
    return None


def _settings(number: int) -> str:
    """What the kernels set in this configuration."""
    named = [
        f"{kernel}: {settings[number % len(settings)]}"
        for kernel, settings in CONFIGURATIONS.settings.items()
        if len(settings) > 1
    ]
    return f" ({'; '.join(named)})"
