"""Algorithms that run with their own tiles: the page says so."""

from __future__ import annotations

import streamlit as st

from viz.shared.own_tiles import Wanted, own_tiles


def with_own_tiles(first: Wanted, second: Wanted | None) -> tuple[Wanted, Wanted | None]:
    """Both runs, each with its algorithm's own tiles. The page says so if they are not the chosen ones."""
    tiles = own_tiles(first, second)
    if tiles.words:
        st.caption(f":material/grid_on: {' '.join(tiles.words)}")
    return tiles.first, tiles.second
