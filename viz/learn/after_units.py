"""What the topics FlashAttention-3 and FlashAttention-4 share: cards, and the clocks of an SM's units."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from kernels.device.gpus import GPUS
from kernels.lessons import units
from viz.learn.controls import choice
from viz.learn.figures.after import clocks_figure
from viz.shared import theme
from viz.shared.layout import plot

GENERATIONS = ("A100", "H100", "B200")
HEAD_DIMS = (64, 128, 256)


def cards(words_of: dict[str, str]) -> None:
    """Title and words of each card, side by side."""
    for column, (title, words) in zip(st.columns(len(words_of)), words_of.items(), strict=True):
        with column.container(border=True, height="stretch"):
            st.markdown(f"**{title}**  \n{words}")


def clocks_panel(palette: theme.Palette, prefix: str, head_dim: int, polynomial: bool) -> None:
    """Clocks of the units of one SM for one tile, on each generation of GPU.

    `prefix` starts the keys of the inputs; `head_dim` is their default; `polynomial` adds a slider for the
    share of exponentials by polynomial.
    """
    with st.container(horizontal=True, gap="small"):
        head_dim = choice("head_dim", HEAD_DIMS, head_dim, f"{prefix}_head_dim", 110)
        share = _polynomial_share(prefix) if polynomial else 0.0
    clocks = {key: units.tile_clocks(key, GPUS[key], 128, 128, head_dim, share) for key in GENERATIONS}
    plot(clocks_figure(clocks, palette), key=f"{prefix}_clocks")
    st.markdown(limit_words(clocks))
    st.caption(
        f"Modelled for a tile of 128 × 128 scores: 4 · 128² · {head_dim} FLOP at the rate of the tensor "
        f"cores, and 128² exponentials at {units.EXPONENTIALS_PER_CLOCK} per clock and SM (CUDA C++ "
        "Programming Guide). Loads, mask, max and sum are left out."
        + (" An exponential by polynomial counts as 3 multiply-adds." if polynomial else "")
    )


def limit_words(clocks: Mapping[str, units.TileClocks]) -> str:
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
