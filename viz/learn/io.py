"""Chapter "Traffic": how many bytes each algorithm moves forward, modelled and counted, and why."""

from __future__ import annotations

import streamlit as st

from viz.learn.controls import switch
from viz.learn.io_forward import forward_view
from viz.learn.io_growth import growth_axis, growth_view
from viz.learn.io_inputs import traffic_inputs
from viz.learn.io_sram import sram_view
from viz.shared import runs

VIEWS = ("Forward", "Growth", "SRAM")


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
    else:
        sram_view(inputs.problem, inputs.memory_bytes, inputs.gpu)
