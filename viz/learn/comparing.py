"""Words for how two numbers compare, so that a sentence says what its numbers say."""

from __future__ import annotations

from viz.shared.formats import format_ratio

NEARLY = 1.05
"""Ratios below this are not worth a number."""


def compared(first: float, second: float, less: str = "less", more: str = "more") -> str:
    """How `first` compares with `second`: "as much as", "1.5× less than", "slightly more than".

    `less` and `more` are the words for the two directions.
    """
    if first == second:
        return "as much as" if (less, more) == ("less", "more") else "the same as"
    ratio, word = (second / first, less) if first < second else (first / second, more)
    return f"{'slightly' if ratio < NEARLY else format_ratio(ratio)} {word} than"
