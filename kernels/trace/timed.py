"""Whose time and memory a page shows for an algorithm."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimedAs:
    """The peer of `kernels.measure.peers` that is timed for an algorithm, and whose time that is."""

    peer: str
    timing_source: str
    """What a card calls what was timed; "" if it is the algorithm itself."""
    why: str = ""
    """Why it is not the algorithm as it is played, in a sentence."""
    is_another: bool = False
    """Whether the peer is another algorithm, whose time is not shown as this one's."""


NOT_TIMED = TimedAs(
    "flash2",
    "FlashAttention-2",
    "No time is taken of it: it is here to be watched and checked.",
    is_another=True,
)
"""For an algorithm that no peer runs."""
FLASH_ATTENTION = TimedAs(
    "ours",
    "flash_attention, which picks its kernel",
    "Timed is `flash_attention`, which picks the kernel and the tiles for the GPU itself.",
)
"""For the kernels of the backward pass: no peer runs one of them by its name."""


def timed_itself(peer: str) -> TimedAs:
    """For an algorithm that is a peer of its own."""
    return TimedAs(peer, "")
