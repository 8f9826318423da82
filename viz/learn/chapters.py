"""The chapters of the Learn page, in reading order: each asks one question, and the next one goes on."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from viz.learn.after import page as after
from viz.learn.gradients import page as gradients
from viz.learn.ideas import page as ideas
from viz.learn.io import page as io
from viz.learn.kernel import page as kernel
from viz.learn.memory import page as memory
from viz.learn.roofline import page as roofline
from viz.learn.softmax import page as softmax
from viz.learn.sources import page as sources
from viz.learn.tiling import page as tiling

WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@dataclass(frozen=True)
class Chapter:
    """One question, its answer in one sentence, and the function that draws the chapter."""

    slug: str
    """Its name in the URL and in `chapters.toml`."""
    show: Callable[[], None]
    title: str
    question: str
    idea: str


PAGES = (memory, softmax, tiling, kernel, io, roofline, gradients, after, ideas, sources)
CHAPTERS = tuple(
    Chapter(slug, page.show, **words) for (slug, words), page in zip(WORDS.items(), PAGES, strict=True)
)
