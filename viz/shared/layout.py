"""Pieces of all pages: the header with the backend chip, charts, links, cards of figures, downloads."""

import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import plotly.graph_objects as go
import streamlit as st

from kernels.device.backend import triton_missing
from kernels.problem import AttentionProblem
from viz.shared import runs, theme
from viz.shared.browser import follow_appearance, one_step_per_act
from viz.shared.fragment import fragment
from viz.shared.kept_problem import measure_fields
from viz.shared.provenance import library_versions

TEXT = f"light-dark({theme.LIGHT.text}, {theme.DARK.text})"
BAD = f"light-dark({theme.LIGHT.bad}, {theme.DARK.bad})"
STYLE = f"""<style>
[data-testid="stMainBlockContainer"] {{ padding-left: 2rem; padding-right: 2rem; padding-bottom: 4rem; }}
.st-key-figures > * {{ flex: 1 1 8.5rem; min-width: 0; }}
[data-testid="stMetric"] > div {{ padding: 0.3rem 0.8rem; }}
[data-testid="stMainBlockContainer"] > [data-testid="stVerticalBlock"] {{ gap: 0.7rem; position: relative; }}
[data-testid="stMainBlockContainer"] h4 {{ padding: 0; }}
[data-testid="stPageLink-NavLink"], [data-testid="stPageLink-NavLink"] * {{ white-space: normal; }}
[data-testid="stMetric"] [data-testid="stMetricDelta"] p {{ white-space: normal; }}
[data-testid="stMetric"] [data-testid="stMetricLabel"] p {{ white-space: normal; }}
[data-testid="stMetric"] [data-testid="stMetricValue"] * {{ white-space: normal; }}
[data-testid="stCaptionContainer"] {{ color: inherit; opacity: 0.85; }}
[data-testid="stButtonGroup"] button p, [role="tab"] p {{ color: {TEXT}; }}
[class*="st-key-predict_"] :is([data-testid="stNumberInputStepUp"], [data-testid="stNumberInputStepDown"]) {{
  display: none; }}
[data-testid="stNumberInputContainer"]:has([role="alert"]) {{ height: auto; flex-wrap: wrap; }}
[data-testid="stNumberInputContainer"] [role="alert"] {{ position: static; width: auto; height: auto;
  margin: 0; flex: 1 0 100%; padding: 0 0.6rem 0.4rem; clip: auto; white-space: normal; font-size: 0.85rem;
  line-height: 1.3; color: {BAD}; }}
[data-testid="stNumberInputContainer"] [role="alert"]::after {{
  content: " Until then the number before it counts."; }}
[data-testid="stNumberInput"]:has([role="alert"]) [data-testid="InputInstructions"] {{ display: none; }}
[data-testid="stSliderThumbValue"] * {{ color: {TEXT}; }}
.st-key-to_top, .st-key-appearance, .st-key-history {{ position: absolute; width: 0; overflow: hidden; }}
.st-key-onward button {{ text-align: left; height: auto; }}
.st-key-onward button p {{ white-space: normal; }}
@media (min-width: 1000px) {{
  .st-key-first_ways {{ position: absolute; top: -0.6rem; right: 0; width: auto; }} /* in sight at once */
}}
@media (max-width: 640px) {{
  [data-testid="stMainBlockContainer"] {{ padding-left: 1rem; padding-right: 1rem; }}
  .st-key-chapters [data-testid="stButtonGroup"] > div {{ flex-wrap: wrap; }}
  .st-key-chapters button {{ flex: 1 1 auto; min-height: 2rem; padding: 0.1rem 0.45rem; }}
  .st-key-chapters button p {{ font-size: 0.82rem; }}
}}
[data-testid="stMarkdownContainer"] table {{ display: block; max-width: 100%; overflow-x: auto; }}
[data-testid="stMarkdownContainer"] .katex-display {{ padding: 2px 3px 6px; }}
.katex-display > .katex {{ white-space: normal; }}
[data-testid="stButton"] kbd {{ opacity: 0.85; }}
</style>"""
"""What the theme has no setting for: charts and player need the width, cards need less height, captions and
chosen segments need more contrast, formulas break at a sign where they would have to be scrolled. What
Streamlit says of a number out of its range to screen readers alone, everybody can read."""

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
    left.markdown(f"#### {title}")
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
