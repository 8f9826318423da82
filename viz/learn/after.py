"""Chapter "What came after": split keys, FlashAttention-3 and 4, each computed on the reader's numbers."""

from __future__ import annotations

import functools

from viz.learn.after_flash3 import flash3_panel
from viz.learn.after_flash4 import flash4_panel
from viz.learn.after_split_kv import split_kv_panel
from viz.learn.stepper import parts
from viz.shared.layout import colors

TOPICS = {
    "Split the keys": split_kv_panel,
    "FlashAttention-3": flash3_panel,
    "FlashAttention-4": flash4_panel,
}


def show() -> None:
    """Draw the chapter."""
    palette = colors()
    parts("after_topic", {name: functools.partial(draw, palette) for name, draw in TOPICS.items()})
