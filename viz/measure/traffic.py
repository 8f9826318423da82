"""The traffic panel: four totals of one shape for standard attention and our kernels."""

import streamlit as st

from kernels.measure.counters import CounterRun
from kernels.measure.four_numbers import FourTotals, cache_share, four_totals
from kernels.problem import AttentionProblem
from viz.measure.controls import Choice
from viz.measure.figures import four_numbers_figure
from viz.measure.sources import Source
from viz.shared.formats import format_bytes, format_count, format_length, format_ratio
from viz.shared.layout import colors, plot
from viz.shared.words import Words

LOOKS = {"naive": ("standard attention", "standard"), "ours": ("our kernels", "flash")}
"""Title and palette entry of each peer."""
WORDS = Words(__file__)


def traffic_panel(shown: list[Source], choice: Choice) -> None:
    """Shapes whose hardware counters are recorded: of any other, Explore counts the requested bytes."""
    counters = [run for source in shown for run in source.document.counters]
    if not counters:
        st.caption(WORDS("no counters"))
        return
    problem = _problem_choice(counters, choice)
    st.caption(WORDS("four numbers"))
    for direction in choice.directions:
        st.markdown(f"**{direction}**")
        runs_by_peer = {
            run.peer: run for run in counters if (run.problem, run.direction) == (problem, direction)
        }
        for column, peer in zip(st.columns(2, gap="large"), LOOKS, strict=True):
            if run := runs_by_peer.get(peer):
                totals, (title, color) = four_totals(run), LOOKS[peer]
                with column:
                    figure = four_numbers_figure(title, totals, getattr(colors(), color), colors())
                    plot(figure, key=f"four-{peer}-{direction}")
                    st.caption(share_words(totals, run))
    st.caption(WORDS("counters"))


def _problem_choice(counters: list[CounterRun], choice: Choice) -> AttentionProblem:
    """A shape whose counters are recorded, first one like that of the sidebar."""
    problems = {_shape_words(run.problem): run.problem for run in counters}
    chosen = choice.view.problem(choice.view.dtype)
    alike = [(each.head_dim, each.mask) == (chosen.head_dim, chosen.mask) for each in problems.values()]
    first = alike.index(True) if True in alike else 0
    return problems[st.selectbox("Shape", problems, first, key="shape", bind="query-params")]


def _shape_words(problem: AttentionProblem) -> str:
    heads = problem.batch * problem.q_heads
    lengths = f"{format_length(problem.q_len)} x {format_length(problem.kv_len)}"
    return f"{lengths}, {format_count(heads, 'head')} of {problem.head_dim}, {problem.mask}, {problem.dtype}"


def share_words(totals: FourTotals, counters: CounterRun) -> str:
    """L2 bytes, DRAM bytes over compulsory bytes, and the caches' share of the requested bytes."""
    _, requested, compulsory, dram = totals
    share = cache_share(requested, dram)
    served = "" if share is None else f" · caches served **{share:.0%}** of the requested bytes"
    ratio = format_ratio((dram.bytes or 0) / (compulsory.bytes or 1))
    return f"L2 {format_bytes(counters.l2_bytes)} · DRAM {ratio} the compulsory bytes{served}"
