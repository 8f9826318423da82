"""Pieces that every page has: header with the backend chip, sources of numbers, charts."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from kernels.device.backend import triton_missing
from kernels.problem import AttentionProblem
from viz.shared import runs, theme

STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding-left: 2rem; padding-right: 2rem; padding-bottom: 4rem; }
.st-key-figures > * { flex: 1 1 8.5rem; min-width: 0; }
[data-testid="stMetric"] > div { padding: 0.3rem 0.8rem; }
[data-testid="stMainBlockContainer"] > [data-testid="stVerticalBlock"] { gap: 0.7rem; }
[data-testid="stMainBlockContainer"] h4 { padding: 0; }
[data-testid="stPageLink-NavLink"], [data-testid="stPageLink-NavLink"] * { white-space: normal; }
[data-testid="stMetric"] [data-testid="stMetricDelta"] p { white-space: normal; }
[data-testid="stMetric"] [data-testid="stMetricLabel"] p { white-space: normal; }
[data-testid="stMarkdownContainer"] table { display: block; max-width: 100%; overflow-x: auto; }
</style>"""
"""What the theme has no setting for: charts and player need the width, cards need less height."""

CHIPS = {
    "cuda": ("CUDA", ":material/memory:", "green"),
    "interpreter": ("interpreter", ":material/computer:", "blue"),
    "starting": ("starting", ":material/hourglass_top:", "gray"),
    "replay": ("replay", ":material/history:", "orange"),
}


def colors() -> theme.Palette:
    """The palette of the appearance that the browser shows."""
    return theme.palette(st.context.theme.type == "dark")


def header(title: str, store: runs.RunStore | None) -> None:
    """Title on the left, the chip that names the backend on the right."""
    st.html(STYLE)
    left, right = st.columns([3, 1], vertical_alignment="center")
    left.markdown(f"#### {title}")
    with right:
        if runs.backend(store) == "starting":
            _waiting_chip(store)
        else:
            _chip(store)


def _chip(store: runs.RunStore | None) -> None:
    words, icon, color = CHIPS[runs.backend(store)]
    with st.container(horizontal=True, horizontal_alignment="right"):
        st.badge(words, icon=icon, color=color, help=_backend_words(store))


@st.fragment(run_every=0.5)
def _waiting_chip(store: runs.RunStore) -> None:
    if runs.backend(store) == "starting":
        _chip(store)
    else:
        st.rerun()  # limits and choices depend on the backend


def _backend_words(store: runs.RunStore | None) -> str:
    name = runs.backend(store)
    if name == "starting":
        return "The worker process is starting. Recorded runs are shown meanwhile."
    if name == "replay":
        reason = triton_missing() or (store.client.start_failure if store else "")
        return f"Only recorded runs can be shown here: {reason}."
    device = store.client.device
    where = f"{device.name}, Triton {device.triton}, torch {device.torch}"
    if name == "cuda":
        return f"Compiled kernels on {where}, driver {device.driver}."
    return f"No GPU here: Triton's interpreter runs the kernels' source on the CPU. {where}."


def source_badges(words: str, run: runs.Run) -> None:
    """A line that says where the numbers below it are from."""
    st.caption(f"{words} · {run.provenance}")


def plot(figure: go.Figure, key: str) -> None:
    """A chart in the page's own fonts and colours."""
    st.plotly_chart(figure, key=key, width="stretch", theme=None, config={"displayModeBar": False})


def explore_link(label: str, problem: AttentionProblem, algorithm: str = "flash2", **more: str) -> None:
    """A link that opens Explore in this state; `more` adds to its URL, such as step="37"."""
    parameters = {name: str(value) for name, value in problem.as_dict().items()}
    st.page_link(
        "viz/explore/page.py",
        label=label,
        icon=":material/play_circle:",
        query_params={"algorithm": algorithm, **parameters, **more},
    )
