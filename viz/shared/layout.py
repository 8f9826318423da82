"""Pieces of all pages: the header with the backend chip, charts, links, cards of figures, downloads."""

import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.device.backend import triton_missing
from kernels.problem import AttentionProblem
from viz.shared import runs, theme
from viz.shared.browser import follow_appearance, one_step_per_act
from viz.shared.formats import number_help
from viz.shared.fragment import fragment
from viz.shared.kept_problem import measure_fields
from viz.shared.provenance import library_versions

_COLORS = " ".join(
    f"--page-{name}: light-dark({getattr(theme.LIGHT, name)}, {getattr(theme.DARK, name)});"
    for name in ("text", "bad", "background")
)
_CSS = Path(__file__).with_name("page.css").read_text("utf-8")
STYLE = f"<style>:root {{ {_COLORS} }}\n{_CSS}</style>"

Chip = tuple[str, str, Literal["green", "blue", "gray", "orange"]]
CHIPS: dict[str, Chip] = {
    "cuda": ("here: CUDA", ":material/memory:", "green"),
    "interpreter": ("here: interpreter", ":material/computer:", "blue"),
    "starting": ("starting", ":material/hourglass_top:", "gray"),
    "replay": ("replay", ":material/history:", "orange"),
}


CARD_COLORS: dict[bool | None, Literal["green", "red", "off"]] = {True: "green", False: "red", None: "off"}
PLAYER, TRACE = "Player as one HTML file", "Trace (.npz)"
ICONS = {PLAYER: "slideshow"}


def colors() -> theme.Palette:
    """The palette of the appearance that the browser shows."""
    return theme.DARK if st.context.theme.type == "dark" else theme.LIGHT


def header(title: str, store: runs.RunStore | None, has_chip: bool = True) -> None:
    """Title on the left, the chip that names the backend on the right."""
    st.html(STYLE)
    follow_appearance()
    one_step_per_act()
    left, right = st.columns([3, 1], vertical_alignment="center")
    left.markdown(f"#### {title}", unsafe_allow_html=True)
    with right:
        words, icon, color = CHIPS[runs.backend(store)]
        if has_chip:
            with st.container(horizontal=True, horizontal_alignment="right"):
                st.badge(words, icon=icon, color=color, help=_backend_words(store))
        if store and runs.backend(store) == "starting":
            _redraw_when_started(store)


@fragment(run_every=0.5)
def _redraw_when_started(store: runs.RunStore) -> None:
    if runs.backend(store) != "starting":
        st.rerun()  # limits and choices depend on the backend


def _backend_words(store: runs.RunStore | None) -> str:
    if store is None or store.client.start_failure:
        reason = store.client.start_failure if store else triton_missing()
        return f"Only recorded runs can be shown here: {reason}."
    device = store.client.device
    if device is None:
        return "The worker process is starting. Recorded runs are shown meanwhile."
    machine = f"{device.name}, {library_versions(device)}"
    if device.backend == "cuda":
        return f"Compiled kernels on {machine}, driver {device.driver}."
    return f"No GPU here: Triton's interpreter runs the kernels' source on the CPU. {machine}."


def segments(label: str, options: Sequence[str], key: str, first: str = "", **look: Any) -> str:
    """One of the options, all visible; which one is in the URL."""
    first = first or options[0]
    return st.segmented_control(
        label, options, default=first, required=True, key=key, bind="query-params", **look
    )


def number_field(
    place: DeltaGenerator,
    label: str,
    low: int,
    high: int,
    default: int,
    key: str,
    about: str = "",
    **look: Any,
) -> int:
    """A field for a whole number, in the URL by its key. Its help is `about`, and then what it takes."""
    look |= {"key": key, "bind": "query-params", "help": about + number_help(low, high, default)}
    return int(place.number_input(label, low, high, default, 1, **look))


def plot(figure: go.Figure, key: str, **picks: Any) -> None:
    """A chart in the page's own fonts and colours; `picks` says what a click on it does."""
    st.plotly_chart(figure, key=key, width="stretch", theme=None, config={"displayModeBar": False}, **picks)


def explore_link(label: str, problem: AttentionProblem, algorithm: str = "flash2", **more: str) -> None:
    """A link that opens Explore in this state; `more` adds to its URL, such as step="37"."""
    problem_link("explore", label, problem, algorithm=algorithm, **more)


LINK_ICONS = {"explore": "play_circle", "measure": "speed", "check": "fact_check"}


def problem_link(page: str, label: str, problem: AttentionProblem, **more: str) -> None:
    """A link that opens Explore, Measure or Check with a problem; `more` adds to its URL."""
    fields = measure_fields(problem) if page == "measure" else problem.as_dict()
    st.page_link(
        f"viz/{page}/page.py",
        label=label,
        icon=f":material/{LINK_ICONS[page]}:",
        query_params={**more, **{name: str(value) for name, value in fields.items()}},
    )


@dataclass(frozen=True)
class Card:
    """One figure: its label, its value, what it is compared with, and more in the help."""

    label: str
    value: str
    comparison: str = ""
    explained: str = ""
    passes: bool | None = None
    """None for a figure that nothing judges."""


def draw_cards(cards: list[Card]) -> None:
    row = st.container(horizontal=True, gap="small", key="figures")
    for each in cards:
        row.metric(
            each.label,
            each.value,
            each.comparison or None,
            delta_color=CARD_COLORS[each.passes],
            delta_arrow="off",
            help=each.explained or None,
            border=True,
        )


def download(label: str, content: Callable[[], str | bytes], file_name: str, words: str = "") -> None:
    """A button for one file, whose content is made when it is asked for; `words` is the help text."""
    st.download_button(
        label,
        content,
        file_name,
        mimetypes.guess_type(file_name)[0],
        icon=f":material/{ICONS.get(label, 'download')}:",
        on_click="ignore",
        help=words or None,
    )
