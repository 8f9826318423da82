"""What pages and the player say of an algorithm beside its facts, by its name.

An algorithm that is not in the table gets what is true of every FlashAttention.
"""

from dataclasses import dataclass

from kernels.trace.algorithm import Algorithm
from kernels.trace.observed import NOT_SEEN

FUSED = (
    "**FlashAttention computes exact [[attention]] without ever storing the matrix of [[score|scores]]**, so "
    "long texts fit and run fast."
)


@dataclass(frozen=True)
class Looks:
    """The words for one algorithm. Terms of the glossary may be marked, [[HBM]]."""

    headline: str = FUSED
    """Above the player."""
    grid_words: str = "S is never in HBM"
    """Of the matrix that the grid shows."""
    chip_words: str = "With the tiles of one pipeline stage."
    """Of how many tiles at a time the data on the chip is."""


GRADIENTS = Looks(grid_words="P is recomputed and never in HBM")
ROW_WISE = Looks(
    "**Row-wise [[attention]] keeps whole rows of [[score|scores]] on the chip**, so a row has to fit; "
    "FlashAttention keeps a tile of them."
)
LOOKS = {
    "flash3": Looks(chip_words="With all slots of the rings of tiles."),
    "backward": GRADIENTS,
    "backward_kv_outer": GRADIENTS,
    "backward_q_outer": GRADIENTS,
    "flash3_backward": Looks(grid_words=GRADIENTS.grid_words, chip_words="With all slots for tiles."),
    "row_wise": ROW_WISE,
    "row_wise_backward": ROW_WISE,
    "standard": Looks(
        "**Standard attention writes the [[score|scores]] and their weights to [[HBM]], and reads them back**"
        "; FlashAttention does not.",
        grid_words="S and P lie in HBM",
    ),
    "user": Looks(
        "**This is a kernel of yours, seen from outside**: what it loads and stores, and when.",
        grid_words=NOT_SEEN,
    ),
}


def looks_of(algorithm: Algorithm) -> Looks:
    """The words for an algorithm, known or not."""
    return LOOKS.get(algorithm.name, Looks())
