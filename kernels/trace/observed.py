"""A kernel that was watched from outside, as a trace describes it: its loads and stores, and no more.

Its scores, row max and row sum stay inside the kernel, so no field of a trace holds them.
"""

import functools
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from msgspec import Meta

from kernels.trace.algorithm import Algorithm, Kernel, Phase, SourceLine, SourceText, TimedAs

NOT_SEEN = "Scores, m and l are not seen"
Text = Annotated[str, Meta(max_length=400)]
Section = Literal["before", "step", "after"]
Stays = Literal["q_tile", "kv_tile"]


@dataclass(frozen=True)
class ObservedSite:
    """A statement of the source that loads or stores."""

    name: Text
    section: Section
    """Where in a turn of the program's loop over tiles it ran."""
    loads: tuple[Text, ...]
    stores: tuple[Text, ...]


@dataclass(frozen=True)
class ObservedKernel:
    name: Text
    file: Text
    sites: tuple[ObservedSite, ...]
    lines: Annotated[tuple[tuple[int, Text, Text, Text], ...], Meta(max_length=4000)]
    """(number, text, name of the site or "", file) of the functions that hold a site."""
    stays: Stays
    """The tile that stays in a turn."""
    products: Annotated[int, Meta(ge=0, le=1000)]
    """Matrix products per tile step, by their counted operations."""


@dataclass(frozen=True)
class Observed:
    """What is known of a user's kernel from outside. Its `algorithm` is what the player takes."""

    label: Text
    kernels: tuple[ObservedKernel, ...]
    skips_tiles: bool
    """Whether no visited tile is hidden by the mask."""
    notes: tuple[Text, ...] = ()
    """What could not be recognised, in words."""

    @functools.cached_property
    def algorithm(self) -> Algorithm:
        """The entry that stands for it; it is in no registry, and nothing runs it again."""
        kernels = tuple(_kernel(kernel) for kernel in self.kernels)
        moved = {name for kernel in kernels for name, _ in kernel.requests}
        return Algorithm(
            name="user",
            label=self.label,
            idea="your own kernel, seen from outside",
            direction="forward",
            kernels=kernels,
            runner="",
            top=tuple(name for name in ("K", "V") if name in moved),
            left=("Q",) if "Q" in moved else (),
            right=("O",) if "O" in moved else (),
            skips_tiles=self.skips_tiles,
            timed_as=TimedAs("user"),
            gives_lse=False,
            observed=True,
        )

    def __post_init__(self) -> None:
        names = [kernel.name for kernel in self.kernels]
        if not names or len(set(names)) < len(names):
            raise ValueError("it names no kernel, or one twice")


def _kernel(kernel: ObservedKernel) -> Kernel:
    before, step, after = (_phases(kernel, section) for section in get_args(Section))
    return Kernel(
        name=kernel.name,
        source=SourceText(kernel.file, tuple(SourceLine(*line) for line in kernel.lines)),
        before=before,
        step=step,
        after=after,
        products=kernel.products,
        stays=kernel.stays,
        each="the kernel's loads and stores light up",
        cells="plain",
    )


def _phases(kernel: ObservedKernel, section: str) -> tuple[Phase, ...]:
    shows = "scores" if section == "step" else ""
    sites = (site for site in kernel.sites if site.section == section)
    return tuple(Phase(site.name, loads=site.loads, stores=site.stores, shows=shows) for site in sites)
