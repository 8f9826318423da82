"""What the topics FlashAttention-3 and FlashAttention-4 share: cards, and the clocks of an SM's units."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from kernels.device.gpus import GPUS
from kernels.lessons import units
from viz.learn.controls import choice
from viz.learn.figures.after import clocks_figure
from viz.learn.predict import choose
from viz.shared import theme
from viz.shared.glossary import say
from viz.shared.layout import plot

GENERATIONS = ("A100", "H100", "B200")
HEAD_DIMS = (64, 128, 256)
TILE = 128
"""Queries and keys of the tile whose clocks are compared."""


def cards(words_of: dict[str, str]) -> None:
    """Title and words of each card, side by side."""
    for column, (title, words) in zip(st.columns(len(words_of)), words_of.items(), strict=True):
        with column.container(border=True, height="stretch"):
            say(f"**{title}**  \n{words}")


Clocks = Mapping[str, units.TileClocks]
"""GPU to the clocks that its units need for a tile."""


def clocks_panel(
    palette: theme.Palette,
    prefix: str,
    head_dim: int,
    polynomial: bool,
    predict: Callable[[Clocks, int], bool],
) -> None:
    """Clocks of the units of one SM for one tile, on each generation of GPU; overlapped ones once predicted.

    `prefix` starts the keys of the inputs; `head_dim` is their default; `polynomial` adds a slider for the
    share of exponentials by polynomial; `predict` asks something of the clocks and head_dim, and says whether
    the reader has answered.
    """
    say(
        f"The clocks of the chart are those of one SM for **one [[tile]] of {TILE} × {TILE} "
        "[[score|scores]]** (modelled)."
    )
    head_dim = choice("d, head_dim", HEAD_DIMS, head_dim, f"{prefix}_head_dim", 110)
    figure = st.container()
    plain = _clocks(head_dim, 0.0)
    answered = predict(plain, head_dim)
    clocks = _clocks(head_dim, _polynomial_share(prefix)) if answered and polynomial else plain
    with figure:
        plot(clocks_figure(clocks, palette, answered), key=f"{prefix}_clocks")
    if answered:
        _say_clocks(clocks, head_dim, polynomial)


def _clocks(head_dim: int, polynomial_share: float) -> Clocks:
    """For one tile."""
    return {
        key: units.tile_clocks(key, GPUS[key], TILE, TILE, head_dim, polynomial_share) for key in GENERATIONS
    }


def _say_clocks(clocks: Clocks, head_dim: int, polynomial: bool) -> None:
    """Which unit sets the limit, and where the clocks are from."""
    st.markdown(limit_words(clocks))
    st.caption(
        f"Modelled for a tile of {TILE} × {TILE} scores: 4 · {TILE}² · {head_dim} FLOP at the rate of the "
        f"tensor cores, and {TILE}² exponentials at {units.EXPONENTIALS_PER_CLOCK} per clock and SM (CUDA "
        "C++ Programming Guide). Loads, mask, max and sum are left out."
        + (" An exponential by polynomial counts as 3 multiply-adds." if polynomial else "")
    )


def predict_overlap(clocks: Clocks, head_dim: int) -> bool:
    """How long a tile takes if two units work at once; whether the reader has answered."""
    tile = clocks["H100"]
    products, exponentials = int(tile.tensor_cores), int(tile.exponentials)
    slower = "tensor cores" if products > exponentials else "exponentials"
    if products == exponentials:
        why = "Both units work all the time: neither waits for the other."
    else:
        why = f"The {slower} work all the time, and the other unit waits for them."
    return choose(
        f"after_overlap_clocks_{head_dim}",
        f"head_dim {head_dim}: on the H100 this tile needs {products:,} clocks of the [[tensor cores]] and "
        f"{exponentials:,} of the unit for exponentials, one after the other {int(tile.in_turn):,}. If both "
        "work at the same time, each on another tile, how many clocks does such a tile take?",
        [f"{count:,}" for count in sorted({products, exponentials, int(tile.in_turn)})],
        f"{int(tile.overlapped):,}",
        why,
    )


def predict_faster_products(clocks: Clocks, head_dim: int) -> bool:
    """What twice as fast tensor cores are worth; whether the reader has answered."""
    before, after = clocks["H100"], clocks["B200"]
    options = {0.5: "half as many", 1.0: "as many"}
    share = after.overlapped / before.overlapped
    right = next((words for value, words in options.items() if share == value), f"{share:.0%} as many")
    return choose(
        f"after_units_clocks_{head_dim}",
        f"head_dim {head_dim}: the [[tensor cores]] of the B200 do twice as much per clock as those of the "
        f"H100: {int(after.tensor_cores):,} clocks per tile instead of {int(before.tensor_cores):,}. The "
        f"exponentials take {int(after.exponentials):,} on both. If products and exponentials overlap, how "
        "many clocks does a tile take on the B200, compared with the H100?",
        sorted({*options.values(), right}),
        right,
        f"The slower of the two sets the pace: {int(before.overlapped):,} clocks on the H100, "
        f"{int(after.overlapped):,} on the B200.",
    )


def limit_words(clocks: Clocks) -> str:
    """Which unit needs the most clocks on each GPU."""
    names = {"tensor_cores": "tensor cores", "exponentials": "exponentials", "polynomial": "polynomial"}
    slowest = {}
    for gpu, of_gpu in clocks.items():
        needed = {name: getattr(of_gpu, field) for field, name in names.items()}
        most = [name for name, value in needed.items() if value == of_gpu.overlapped]
        slowest[gpu] = " and ".join(most)
    return (
        "**Overlapped, the limit is set by** "
        + ", ".join(f"the {unit} on the {gpu}" for gpu, unit in slowest.items())
        + "."
    )


def _polynomial_share(prefix: str) -> float:
    percent = st.slider(
        "Exponentials by polynomial, per cent",
        0,
        100,
        0,
        5,
        key=f"{prefix}_share",
        bind="query-params",
        width=300,
    )
    return percent / 100
