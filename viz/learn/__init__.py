"""The chapters of the Learn page, in reading order. Each is one module with a `show()` that draws it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chapter:
    """One idea. `slug` names the module viz/learn/<slug>.py and stands in the URL."""

    slug: str
    title: str
    idea: str
    """The idea in one line."""


CHAPTERS = (
    Chapter("ideas", "Five ideas", "Exact attention, without ever storing the matrix of scores"),
    Chapter("softmax", "Softmax", "A softmax can be computed in one pass, if old sums are rescaled"),
    Chapter(
        "tiling",
        "Tiling",
        "Matrix products fall apart into tiles; softmax does so only with a running max and sum",
    ),
    Chapter("io", "Traffic", "Time goes into moving bytes, and tiles decide how many move"),
    Chapter(
        "roofline", "Roofline", "Below some FLOPs a byte the memory sets the pace, above it the arithmetic"
    ),
    Chapter("gradients", "Gradients", "The backward pass recomputes P from one number a row"),
    Chapter(
        "after", "What came after", "Split keys for decoding; asynchrony and low precision for newer GPUs"
    ),
)
