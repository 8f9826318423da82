"""Explore: choose a shape, run the kernel, watch what it did, compare it with standard attention."""

from __future__ import annotations

import streamlit as st

from kernels.traffic import compulsory_bytes
from viz import cards, controls, runs, theme
from viz.figures.comparison import memory_figure, time_figure
from viz.figures.ledger import ledger_figure
from viz.figures.row_state import row_state_figures, spread_rows
from viz.layout import colors, header, plot, source_badges
from viz.panels import current_run, measurement_panel, player_panel, take_away

ALGORITHM = "flash2"

store = runs.run_store()
backend = runs.backend(store)
header("FlashAttention, played back", store)
problem, run_button_place = controls.problem_controls(backend)
gpu = controls.gpu_control()
run = current_run(store, backend, problem, ALGORITHM, run_button_place) if problem else None

if run:
    kpis = st.container()
    player_panel(run, gpu)
    measurement = measurement_panel(store, backend, run)
    with kpis:
        cards.four_figures(run, measurement)

    st.subheader("Row state", anchor="rows")
    source_badges("counted by the kernel itself, one value a row and key tile", run)
    figures = row_state_figures(run.trace, spread_rows(run.trace), colors())
    for place, (title, figure) in zip(st.columns(len(figures)), figures.items(), strict=True):
        with place:
            plot(figure, key=title)

    traffic, cost = st.columns(2, gap="large")
    with traffic:
        st.subheader("Traffic by tensor", anchor="traffic")
        st.caption(
            "**Counted**: bytes that the kernel's loads and stores asked for; re-reads of K and V may hit the L2 cache, so this is not "
            "DRAM traffic. **Modelled**: standard attention writes S and P to HBM and reads them back (Dao et al. 2022, algorithm 0). "
            f"The least that any kernel can move is {theme.format_bytes(compulsory_bytes(run.trace.problem))} (modelled)."
        )
        plot(ledger_figure(run.trace, colors()), key="ledger")
    with cost:
        st.subheader("Time and memory", anchor="cost")
        st.caption(cards.measurement_words(measurement, run))
        if measurement:
            plot(time_figure(measurement, colors()), key="time")
            plot(memory_figure(measurement, colors()), key="memory")
    take_away(run, gpu)
    st.caption(theme.ABOUT_NUMBERS)
