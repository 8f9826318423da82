"""What the command lines share: the checks of an option before anything is run."""

import argparse
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path


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
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        accepted = "expected whole numbers separated by commas, such as 64,128"
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: {accepted}") from None


def report_path(text: str) -> Path:
    """An argparse type: a file that can be written, which is found out before the work."""
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        accepted = "expected a file that can be written, in a folder that exists"
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: {accepted}")
    return path
