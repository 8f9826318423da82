"""Numbers that a reader types: a row of scores or a small matrix."""

from __future__ import annotations

import re

import numpy as np

LARGEST = 1e6
"""Largest magnitude accepted: its exp overflows in every format, and it is still short enough to draw."""

_BETWEEN_NUMBERS = re.compile(r"[\s,\[\](){}|]+")
_BETWEEN_ROWS = re.compile(r"[;\n]|\]\s*,?\s*\[")
_MINUS_SIGNS = str.maketrans({"−": "-", "–": "-"})


class UnreadableNumbers(ValueError):
    """Text that is not a row or matrix of numbers; says what was given, what is accepted and what to do."""


def parse_row(text: str | None, longest: int = 64) -> np.ndarray:
    """float64 (n,), 1 <= n <= longest, from text such as "3, 2, 5, 1" or "[3 2 5 1]".

    Raises UnreadableNumbers for an empty text, for a word that is not a number, for infinities, NaN and
    magnitudes over LARGEST, and for too many numbers.
    """
    return np.array(_numbers((text or "").replace(";", " "), f"1 to {longest} numbers", longest))


def parse_matrix(text: str | None, name: str, largest: int = 8) -> np.ndarray:
    """float64 (rows, columns), each 1 to `largest`, from text such as "1 2; 3 4" or "[[1, 2], [3, 4]]".

    Raises UnreadableNumbers as `parse_row` does, and for rows of unequal length. The message starts with
    `name`.
    """
    rows = [row for row in _BETWEEN_ROWS.split(text or "") if _BETWEEN_NUMBERS.sub("", row)]
    accepted = f"up to {largest} rows of up to {largest} numbers, with “;” between rows"
    if not rows:
        raise UnreadableNumbers(f"{name} is empty. Accepted are {accepted}, such as 1 2; 3 4.")
    if len(rows) > largest:
        raise UnreadableNumbers(f"{name} has {len(rows):,} rows. Accepted are {accepted}: leave some out.")
    try:
        numbers = [_numbers(row, f"1 to {largest} numbers per row", largest) for row in rows]
    except UnreadableNumbers as error:
        raise UnreadableNumbers(f"{name}: {error}") from None
    for index, row in enumerate(numbers):
        if len(row) != len(numbers[0]):
            raise UnreadableNumbers(
                f"{name}: row 0 has length {len(numbers[0])} and row {index} has length {len(row)}. "
                "Give every row the same length."
            )
    return np.array(numbers)


def _numbers(text: str, accepted: str, most: int) -> list[float]:
    words = [word for word in _BETWEEN_NUMBERS.split(text.translate(_MINUS_SIGNS)) if word]
    if not words:
        raise UnreadableNumbers(f"No number given. Accepted are {accepted}, such as 3, 2, 5, 1.")
    if len(words) > most:
        raise UnreadableNumbers(f"{len(words):,} numbers given. Accepted are {accepted}: leave some out.")
    return [_number(word) for word in words]


def _number(word: str) -> float:
    shown = word if len(word) <= 20 else word[:20] + "…"
    try:
        number = float(word)
    except ValueError:
        raise UnreadableNumbers(
            f"“{shown}” is not a number. Accepted are numbers such as 3, -0.5 or 1e3, "
            "with commas or spaces between them."
        ) from None
    if not abs(number) <= LARGEST:
        raise UnreadableNumbers(
            f"“{shown}” is not accepted: give finite numbers from {-LARGEST:,.0f} to {LARGEST:,.0f}."
        )
    return number
