"""Chapter 4, Traffic: how many bytes each algorithm moves, modelled and counted, over T, d, M and tiles."""

from __future__ import annotations

import streamlit as st

from viz.learn.controls import switch
from viz.learn.io_backward import backward_view
from viz.learn.io_forward import forward_view
from viz.learn.io_growth import growth_axis, growth_view
from viz.learn.io_inputs import traffic_inputs
from viz.learn.io_sram import sram_view
from viz.shared import runs

VIEWS = ("Forward", "Growth", "SRAM", "Backward")


def show() -> None:
    store = runs.run_store()
    backend = runs.backend(store)
    inputs = traffic_inputs()
    with st.container(horizontal=True, gap="large"):
        view = switch("View", VIEWS, "io_view")
        axis = growth_axis() if view == "Growth" else ""
    if view == "Forward":
        forward_view(inputs, store, backend)
    elif view == "Growth":
        growth_view(inputs, axis, store, backend)
    elif view == "SRAM":
        sram_view(inputs.problem, inputs.memory_bytes, inputs.gpu)
    else:
        backward_view(inputs.problem, inputs.memory, store, backend)
