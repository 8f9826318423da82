"""What the command lines share: the checks of an option before anything is run."""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from kernels.problem import InvalidProblem


def seconds(text: str) -> float:
    """A time limit, as an argparse type: more than 0, and at most what the clocks of threads can wait."""
    try:
        limit_s = float(text)
    except ValueError:
        limit_s = 0.0
    if 0 < limit_s <= threading.TIMEOUT_MAX:  # NaN fails this comparison
        return limit_s
    accepted = f"expected seconds, more than 0 and at most {threading.TIMEOUT_MAX:.0f}, such as 120"
    raise argparse.ArgumentTypeError(f"{text!r} is not accepted: {accepted}")


def some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """An argparse type: names of `known`, comma separated."""
    accepted = list(known)

    def names(text: str) -> list[str]:
        given = words(text)
        if unknown := [name for name in given if name not in accepted]:
            wanted = f"expected some of {','.join(accepted)}"
            raise argparse.ArgumentTypeError(f"{','.join(unknown)} is not accepted: {wanted}")
        return given

    return names


def words(text: str) -> list[str]:
    """An argparse type: words, comma separated."""
    return text.split(",")


def numbers(text: str) -> list[int]:
    """An argparse type: whole numbers, comma separated."""
    return [int(part) for part in text.split(",")]


def check_report_path(option: str, path: Path | None) -> None:
    """Refuse a file that could not be written, before the work rather than after it.

    Raises InvalidProblem.
    """
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise InvalidProblem(option, str(path), f"there is no folder {folder}", "Create it first.")
    if path.is_dir():
        raise InvalidProblem(option, str(path), "it is a folder", "Name a file in it.")
    if not os.access(path if path.exists() else folder, os.W_OK):
        what = "the file" if path.exists() else f"the folder {folder}"
        raise InvalidProblem(option, str(path), f"{what} cannot be written", "Name another file.")
