"""What pages and the player say of an algorithm beside its facts: `looks.toml`, by its name."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from kernels.trace.algorithm import Algorithm

LOOKS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@dataclass(frozen=True)
class Looks:
    """The words for one algorithm, Markdown; `looks.toml` says where each stands."""

    headline: str
    grid_words: str
    chip_words: str


def looks_of(algorithm: Algorithm) -> Looks:
    return Looks(**LOOKS["default"] | LOOKS.get(algorithm.name, {}))
