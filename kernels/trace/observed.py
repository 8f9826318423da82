"""A kernel that was watched from outside, as a trace describes it: its loads and stores, and no more.

Its scores, row max and row sum stay inside the kernel, so no field of a trace holds them.
"""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass

from kernels.trace.algorithm import Algorithm, Kernel, Phase, SourceLine, SourceText
from kernels.trace.timed import timed_itself

NOT_SEEN = "Scores, m and l are not seen"
SECTIONS = ("before", "step", "after")
MAX_LINES, MAX_TEXT = 4000, 400


@dataclass(frozen=True)
class ObservedSite:
    """A statement of the source that loads or stores."""

    name: str
    section: str
    """One of SECTIONS: where in a turn of the program's loop over tiles it ran."""
    loads: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass(frozen=True)
class ObservedKernel:
    """One kernel, by its launches."""

    name: str
    file: str
    sites: tuple[ObservedSite, ...]
    lines: tuple[tuple[int, str, str, str], ...]
    """(number, text, name of the site or "", file) of the functions that hold a site."""
    stays: str
    """The tile that stays in a turn: "q_tile" or "kv_tile"."""
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
        kernels = tuple(_kernel(kernel) for kernel in self.kernels)
        moved = {name for kernel in kernels for name, _ in kernel.requests}
        return Algorithm(
            name="user",
            label=self.label,
            idea="your own kernel, seen from outside",
            headline="**This is a kernel of yours, seen from outside**: what it loads and stores, and when.",
            direction="forward",
            kernels=kernels,
            runner="",
            top=tuple(name for name in ("K", "V") if name in moved),
            left=("Q",) if "Q" in moved else (),
            right=("O",) if "O" in moved else (),
            grid_words=NOT_SEEN,
            skips_tiles=self.skips_tiles,
            timed_as=timed_itself("user"),
            gives_lse=False,
            observed=True,
        )

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> Observed:
        """The reverse of `as_dict`. Raises ValueError, KeyError or TypeError for anything else."""
        kernels = tuple(_read_kernel(kernel) for kernel in values["kernels"])
        names = [kernel.name for kernel in kernels]
        notes = tuple(_text(note) for note in values["notes"])
        if not kernels or len(set(names)) < len(names):
            raise ValueError("it names no kernel, or one twice")
        return cls(_text(values["label"]), kernels, bool(values["skips_tiles"]), notes)


def _kernel(kernel: ObservedKernel) -> Kernel:
    before, step, after = (_phases(kernel, section) for section in SECTIONS)
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


def _read_kernel(values: dict) -> ObservedKernel:
    sites = tuple(_read_site(site) for site in values["sites"])
    lines = tuple(
        (int(number), _text(text), _text(site), _text(file)) for number, text, site, file in values["lines"]
    )
    stays, products = values["stays"], int(values["products"])
    if len(lines) > MAX_LINES or stays not in ("q_tile", "kv_tile") or not 0 <= products <= 1000:
        raise ValueError("a kernel in it has too many lines, or wrong fields")
    return ObservedKernel(_text(values["name"]), _text(values["file"]), sites, lines, stays, products)


def _read_site(values: dict) -> ObservedSite:
    if values["section"] not in SECTIONS:
        raise ValueError(f"section {values['section']!r} is none of {', '.join(SECTIONS)}")
    loads, stores = (tuple(_text(name) for name in values[field]) for field in ("loads", "stores"))
    return ObservedSite(_text(values["name"]), values["section"], loads, stores)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError(f"{str(value)[:40]!r} is not a short text")
    return value
