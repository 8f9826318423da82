"""Chapter "Traffic": how many bytes each algorithm moves forward, modelled and counted, and why."""

from __future__ import annotations

import functools
from collections.abc import Callable

from viz.learn.io_forward import forward_view
from viz.learn.io_growth import growth_view
from viz.learn.io_sram import sram_view
from viz.learn.stepper import parts
from viz.shared import runs


def show() -> None:
    """Draw the chapter."""
    store = runs.run_store()
    backend = runs.backend(store)
    draws: dict[str, Callable[[], None]] = {
        "Forward": functools.partial(forward_view, store, backend),
        "Growth": functools.partial(growth_view, store, backend),
        "SRAM": sram_view,
    }
    parts("io_view", draws)
