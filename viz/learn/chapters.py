"""The chapters of the Learn page, in reading order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viz.learn import after, gradients, ideas, io, roofline, softmax, tiling


@dataclass(frozen=True)
class Chapter:
    """One idea, and the function that draws its chapter."""

    slug: str
    """Its name in the URL."""
    title: str
    idea: str
    """The idea in one line."""
    show: Callable[[], None]


CHAPTERS = (
    Chapter("ideas", "Five ideas", "Exact attention that never stores the matrix of scores", ideas.show),
    Chapter("softmax", "Softmax", "One pass is enough for softmax if old sums are rescaled", softmax.show),
    Chapter(
        "tiling",
        "Tiling",
        "A matrix product splits into tiles; softmax also needs a running max and sum",
        tiling.show,
    ),
    Chapter("io", "Traffic", "Tiles decide how many bytes move between HBM and the chip", io.show),
    Chapter(
        "roofline",
        "Roofline",
        "If a step does little arithmetic per byte, it waits for memory",
        roofline.show,
    ),
    Chapter(
        "gradients",
        "Gradients",
        "The backward pass recomputes P from one number per row",
        gradients.show,
    ),
    Chapter(
        "after",
        "What came after",
        "Split keys for decoding; asynchrony and low precision for newer GPUs",
        after.show,
    ),
)
