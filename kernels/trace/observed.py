"""A kernel that was watched from outside, as a trace describes it: its loads and stores, and no more.

Its scores, row max and row sum stay inside the kernel, so no field of a trace holds them.
"""

import functools
from dataclasses import dataclass

from kernels.trace.algorithm import Algorithm, Kernel, Phase, SourceText, TimedAs

NOT_SEEN = "Scores, m and l are not seen"


@dataclass(frozen=True)
class ObservedKernel:
    """A phase is a statement of the source that loads or stores."""

    name: str
    source: SourceText
    """The functions that hold such a statement."""
    before: tuple[Phase, ...]
    step: tuple[Phase, ...]
    """Those that run in every round of a program's loop over tiles."""
    after: tuple[Phase, ...]
    stays: str
    """"q_tile" or "kv_tile": the tile that stays in a turn."""
    products: int
    """Matrix products per tile step, by their counted operations."""


@dataclass(frozen=True)
class Observed:
    """What is known of a user's kernel from outside. Its `algorithm` is what the player takes."""

    label: str
    kernels: tuple[ObservedKernel, ...]
    skips_tiles: bool
    """Whether no visited tile is hidden by the mask."""
    notes: tuple[str, ...] = ()
    """What could not be recognised, in words."""

    @functools.cached_property
    def algorithm(self) -> Algorithm:
        """The entry that stands for it; it is in no registry, and nothing runs it again."""
        each = "the kernel's loads and stores light up"
        kernels = tuple(Kernel(**vars(kernel), each=each, cells="plain") for kernel in self.kernels)
        moved = {name for kernel in kernels for name, _ in kernel.requests}
        return Algorithm(
            name="user",
            label=self.label,
            idea="your own kernel, seen from outside",
            direction="forward",
            kernels=kernels,
            runner="",
            top=tuple(name for name in ("K", "V") if name in moved),
            left=tuple(name for name in ("Q", "O") if name in moved),
            skips_tiles=self.skips_tiles,
            timed_as=TimedAs("user"),
            observed=True,
        )
