"""Numbers that a reader types: a row of scores or a small matrix."""

import re

import numpy as np

LARGEST = 1e6
"""Largest magnitude accepted: its exp overflows in every format, and it is still short enough to draw."""

LONGEST, MOST_ROWS = 64, 8

_BETWEEN_NUMBERS = re.compile(r"[\s,\[\](){}|]+")
_BETWEEN_ROWS = re.compile(r"[;\n]|\]\s*,?\s*\[")
_MINUS_SIGNS = str.maketrans({"−": "-", "–": "-"})


class UnreadableNumbers(ValueError):
    """Text that is not a row or matrix of numbers; says what was given, what is accepted and what to do."""


def parse_row(text: str, name: str = "") -> np.ndarray:
    """float64 (n,), 1 <= n <= LONGEST, from text such as "3, 2, 5, 1" or "[3 2 5 1]".

    Raises UnreadableNumbers for an empty text, for a word that is not a number, for infinities, NaN and
    magnitudes over LARGEST, and for too many numbers. The message starts with `name`.
    """
    return np.array(_numbers(text.replace(";", " "), name, LONGEST))


def parse_matrix(text: str, name: str) -> np.ndarray:
    """float64 (rows, columns), each 1 to MOST_ROWS, from text such as "1 2; 3 4" or "[[1, 2], [3, 4]]".

    Raises UnreadableNumbers as `parse_row` does, and for rows of unequal length. The message starts with
    `name`.
    """
    texts = [row for row in _BETWEEN_ROWS.split(text) if _BETWEEN_NUMBERS.sub("", row)]
    if not 1 <= len(texts) <= MOST_ROWS:
        raise UnreadableNumbers(
            f"{name}: {len(texts):,} rows given. Accepted are 1 to {MOST_ROWS} rows, such as 1 2; 3 4."
        )
    rows = [_numbers(row, f"{name}: ", MOST_ROWS) for row in texts]
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise UnreadableNumbers(
                f"{name}: row 0 has length {len(rows[0])} and row {index} has length {len(row)}. "
                "Give every row the same length."
            )
    return np.array(rows)


def _numbers(text: str, where: str, most: int) -> list[float]:
    words = [word for word in _BETWEEN_NUMBERS.split(text.translate(_MINUS_SIGNS)) if word]
    if not 1 <= len(words) <= most:
        raise UnreadableNumbers(
            f"{where}{len(words):,} numbers given. Accepted are 1 to {most} numbers, such as 3, 2, 5, 1."
        )
    numbers = []
    for word in words:
        try:
            numbers.append(float(word))
        except ValueError:
            numbers.append(np.nan)
        if not abs(numbers[-1]) <= LARGEST:
            shown = word if len(word) <= 20 else word[:20] + "…"
            raise UnreadableNumbers(
                f"{where}“{shown}” is not a number from {-LARGEST:,.0f} to {LARGEST:,.0f}. Give numbers such "
                "as 3, -0.5 or 1e3, with commas or spaces between them."
            )
    return numbers
