"""Numbers that a reader types: a row of scores or a small matrix."""

import re

import numpy as np

LARGEST = 1e6
"""Largest magnitude accepted: its exp overflows in every format, and it is still short enough to draw."""
LONGEST, MOST_ROWS = 64, 8
_NUMBER = re.compile(r"[^\s,\[\](){}|;]+")
_BETWEEN_ROWS = re.compile(r"[;\n]|\]\s*,?\s*\[")


class UnreadableNumbers(ValueError):
    """Text that is not a row or matrix of numbers; says what was given and what is accepted."""


def parse_row(text: str, name: str = "") -> np.ndarray:
    """float64 (n,), 1 <= n <= LONGEST, from text such as "3, 2, 5, 1" or "[3 2 5 1]".

    Raises UnreadableNumbers for anything else, as for NaN, and for too many or too large numbers. The message
    starts with `name`.
    """
    words = _NUMBER.findall(text.replace("−", "-").replace("–", "-"))
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError:
        numbers = np.array([np.nan])
    if not 1 <= len(numbers) <= LONGEST or not (np.abs(numbers) <= LARGEST).all():
        accepted = f"1 to {LONGEST} numbers from {-LARGEST:,.0f} to {LARGEST:,.0f}, such as 3, -0.5 or 1e3"
        raise _unreadable(name, text, accepted)
    return numbers


def parse_matrix(text: str, name: str) -> np.ndarray:
    """float64 (rows, columns), each 1 to MOST_ROWS, from text such as "1 2; 3 4" or "[[1, 2], [3, 4]]".

    Raises UnreadableNumbers as `parse_row` does, and for rows of unequal length.
    """
    rows = [parse_row(row, f"{name}: ") for row in _BETWEEN_ROWS.split(text) if _NUMBER.search(row)]
    if not 1 <= len(rows) <= MOST_ROWS or {len(rows[0])} != {*map(len, rows)} or len(rows[0]) > MOST_ROWS:
        accepted = f"1 to {MOST_ROWS} rows of 1 to {MOST_ROWS} numbers, of the same length, such as 1 2; 3 4"
        raise _unreadable(f"{name}: ", text, accepted)
    return np.array(rows)


def _unreadable(name: str, text: str, accepted: str) -> UnreadableNumbers:
    shown = text.strip() if len(text) < 40 else f"{text[:40]}…"
    return UnreadableNumbers(f"{name}“{shown}” is not accepted. Expected are {accepted}.")
