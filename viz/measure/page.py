"""Measure: speed, memory and traffic of attention, live on this machine and recorded on a GPU."""

import streamlit as st

from viz.measure import charts, live
from viz.measure.controls import IN_URL, measure_controls
from viz.measure.origin import how_measured, say_missing, source_row
from viz.measure.roofline import roofline_panel
from viz.measure.traffic import traffic_panel
from viz.shared import runs, theme
from viz.shared.glossary import in_words
from viz.shared.layout import header
from viz.shared.link import takes_from_link

store = runs.run_store()
backend = runs.backend(store)
takes_from_link(*IN_URL, "from", "chart", "roof", "shape")
header("Measure: speed, memory, traffic", store)
choice = measure_controls(backend)

if choice:
    shown = source_row(store, backend, choice)
    live.live_panel()
    curves = charts.shown_curves(shown, choice)
    st.caption("  \n".join(f"**{source.name}**: {source.words}" for source in shown if source.device))
    say_missing(shown, curves)
    if curves:
        dtype = None if backend == "replay" else live.dtype_here(backend, choice)
        st.caption(charts.problem_lines(curves, choice, dtype))
        charts.cards(curves, choice)
        if any(curve.peer == "naive" for curve in curves):
            st.caption(in_words("naive attention"))
        charts.charts_panel(shown, curves, choice)
        charts.files(shown, curves, choice)

    st.subheader("Roofline", anchor="roofline")
    roofline_panel(store, backend, shown, curves, choice)

    st.subheader("Traffic: four numbers that are not the same", anchor="traffic")
    traffic_panel(store, backend, shown, choice)

    how_measured(shown)
    st.caption(theme.ABOUT_NUMBERS)
