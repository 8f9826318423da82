"""Explore: choose a shape and an algorithm, run the kernel, watch what it did, compare it with standard attention or another run."""

from __future__ import annotations

import streamlit as st

from kernels.traffic.modelled import compulsory_bytes
from viz.explore import cards, panels
from viz.explore.figures.ledger import difference_table, ledger_figure, ledgers_of
from viz.explore.figures.row_state import state_figures
from viz.shared import problem_form as controls
from viz.shared import runs, theme
from viz.shared.figures.comparison import memory_figure, time_figure
from viz.shared.formats import format_bytes
from viz.shared.layout import colors, header, plot, source_badges

store = runs.run_store()
backend = runs.backend(store)
header("FlashAttention, played back", store)
algorithm = controls.algorithm_control()
problem, run_button_place = controls.problem_controls(backend)
versus = controls.versus_controls(problem) if problem else None
gpu = controls.gpu_control()
run = panels.current_run(store, backend, problem, algorithm, run_button_place) if problem else None
other = panels.current_run(store, backend, *versus) if run and versus else None

if run:
    kpis = st.container()
    if other:
        panels.duel_panel(run, other, gpu)
    else:
        panels.player_panel(run, gpu)
    measurement = panels.measurement_panel(store, backend, run)
    with kpis:
        cards.four_figures(run, measurement, other)

    figures = state_figures(run.trace, colors())
    if figures:
        st.subheader(
            "Gradient tiles" if run.trace.gradient_distance is not None else "Row state", anchor="rows"
        )
        source_badges("written by the kernel itself after each tile step", run)
        for place, (title, figure) in zip(st.columns(len(figures)), figures.items(), strict=True):
            with place:
                plot(figure, key=title)

    direction = run.algorithm.direction
    traffic, cost = st.columns(2, gap="large")
    with traffic:
        st.subheader("Traffic by tensor", anchor="traffic")
        st.caption(
            "**Counted**: bytes that the loads and stores asked for; re-reads may hit the L2 cache, so this is not DRAM traffic. "
            "**Modelled**: standard attention writes its matrices to HBM and reads them back (Dao et al. 2022, algorithms 0 and 3). "
            f"The least that any {direction} kernel can move is {format_bytes(compulsory_bytes(run.trace.problem, direction))} (modelled)."
        )
        ledgers = ledgers_of(run.trace, other.trace if other else None)
        plot(ledger_figure(*ledgers, colors()), key="ledger")
        if other:
            st.dataframe(difference_table(*ledgers), hide_index=True, width="stretch")
    with cost:
        st.subheader("Time and memory", anchor="cost")
        st.caption(cards.measurement_words(measurement, run))
        if measurement:
            plot(time_figure(measurement, colors(), direction), key="time")
            plot(memory_figure(measurement, colors(), direction), key="memory")

    timeline, mask = st.columns([3, 2], gap="large")
    with timeline:
        st.subheader("Programs on the SMs", anchor="timeline")
        panels.timeline_panel(run, gpu)
    with mask:
        st.subheader("Mask by tile", anchor="mask")
        panels.mask_panel(run.trace.problem)
    panels.take_away(run, gpu)
    st.caption(theme.ABOUT_NUMBERS)
