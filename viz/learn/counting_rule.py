"""The one rule by which the chapters count bytes, and the words beside the numbers."""

from __future__ import annotations

from kernels.algorithms.standard.traffic import standard_bytes, standard_requested
from kernels.problem import AttentionProblem
from viz.shared.formats import format_bytes

RULE = (
    "**[[requested bytes|Requested]]** bytes: every load and store of one head counts. What is read "
    "again, such as K and V for each query tile, counts again. lse counts if it is stored. "
    "**[[compulsory bytes|At least]]**: each kernel reads its inputs once and writes its results once."
)
"""Said where the numbers of a chapter are from. Numbers without a word beside them are requested bytes."""


def standard_words(problem: AttentionProblem) -> str:
    """Both numbers of standard attention: "12.8 MB requested, at least 8.91 MB"."""
    requested, least = standard_requested(problem), standard_bytes(problem)
    return f"{format_bytes(requested)} requested, at least {format_bytes(least)}"
