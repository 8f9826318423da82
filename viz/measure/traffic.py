"""The traffic panel: four totals of one shape for naive attention and our kernels."""

import streamlit as st

from kernels.algorithms.flash2.entry import ENTRY as FLASH2
from kernels.measure.counters import CounterRun
from kernels.measure.four_numbers import FourTotals, cache_share, four_totals
from kernels.problem import AttentionProblem
from kernels.traffic.operations import Operation
from kernels.worker.requests import OperationsRequest, TraceRequest
from viz.measure.controls import Choice
from viz.measure.figures import four_numbers_figure
from viz.measure.live import NO_DEVICE
from viz.measure.sources import Source
from viz.shared import runs
from viz.shared.formats import format_bytes, format_count, format_length, format_ratio
from viz.shared.layout import colors, plot
from viz.shared.waiting import asked_job, result_of
from viz.shared.words import Words

SIDEBAR_SHAPE = "chosen at the side"
WORDS = Words(__file__)


def traffic_panel(shown: list[Source], choice: Choice) -> None:
    """Shapes with hardware counters come first; any other shape has three of the four totals."""
    counters = [run for source in shown for run in source.document.counters]
    problem = _problem_choice(counters, choice)
    st.caption(WORDS("four numbers"))
    for direction in choice.directions:
        st.markdown(f"**{direction}**")
        runs_by_peer = {
            run.peer: run for run in counters if (run.problem, run.direction) == (problem, direction)
        }
        for column, peer in zip(st.columns(2, gap="large"), ("naive", "ours"), strict=True):
            with column:
                _four_numbers(peer, problem, direction, runs_by_peer.get(peer))
        if runs_by_peer:
            st.caption(WORDS("counters"))


def _four_numbers(peer: str, problem: AttentionProblem, direction: str, counters: CounterRun | None) -> None:
    store, operations = runs.run_store(), counters.counted if counters else ()
    if counters is None and store and runs.backend(store) not in NO_DEVICE:
        if peer == "naive":  # by the sizes of its tensors, within milliseconds
            counting = store.job(OperationsRequest(problem, direction))
            operations = result_of(store, counting, "count-naive") or ()
        elif direction == "forward":
            operations = _count_ours(store, problem)
    totals = four_totals(peer, problem, direction, operations, counters)
    title, color = {"naive": ("standard attention", "standard"), "ours": ("our kernels", "flash")}[peer]
    figure = four_numbers_figure(title, totals, getattr(colors(), color), colors())
    plot(figure, key=f"four-{peer}-{direction}")
    st.caption(share_words(totals, counters))


def _problem_choice(counters: list[CounterRun], choice: Choice) -> AttentionProblem:
    """A shape whose counters are recorded, first one like that of the sidebar, or that one itself."""
    problems = {_shape_words(run.problem): run.problem for run in counters}
    chosen = choice.view.problem(choice.view.dtype)
    alike = [(each.head_dim, each.mask) == (chosen.head_dim, chosen.mask) for each in problems.values()]
    first = alike.index(True) if True in alike else 0
    options = [*problems, SIDEBAR_SHAPE]
    picked = st.selectbox("Shape", options, first, key="shape", bind="query-params", help=WORDS("shapes"))
    if picked == SIDEBAR_SHAPE:
        st.caption(f"{_shape_words(chosen)}, {chosen.batch} x {format_count(chosen.q_heads, 'head')}")
    return problems.get(picked, chosen)


def _shape_words(problem: AttentionProblem) -> str:
    heads = problem.batch * problem.q_heads
    lengths = f"{format_length(problem.q_len)} x {format_length(problem.kv_len)}"
    return f"{lengths}, {format_count(heads, 'head')} of {problem.head_dim}, {problem.mask}, {problem.dtype}"


def _count_ours(store: runs.RunStore, problem: AttentionProblem) -> tuple[Operation, ...]:
    """Requested bytes of the forward kernel, counted on one head (all are alike); a long run asks first."""
    head, heads = problem.with_(batch=1, q_heads=1, kv_heads=1), problem.batch * problem.q_heads
    seconds = runs.estimated_seconds(head, FLASH2, runs.backend(store))
    label = f"Count our kernel here (about {seconds:.0f} s)"
    traced = result_of(store, asked_job(store, TraceRequest(head, FLASH2.name), seconds, label), "count-ours")
    if traced is None:
        return ()
    read, written = (
        heads * int(each.sum()) for each in (traced.trace.bytes_read, traced.trace.bytes_written)
    )
    return (Operation(FLASH2.kernels[0].name, read, written, f"{head.block_m}x{head.block_n} tiles"),)


def share_words(totals: FourTotals, counters: CounterRun | None) -> str:
    """L2 bytes, DRAM bytes over compulsory bytes, and the caches' share of the requested bytes."""
    _, requested, compulsory, dram = totals
    if counters is None or not dram.bytes or not compulsory.bytes:
        return WORDS("no counters")
    share = cache_share(requested, dram)
    served = "" if share is None else f" · caches served **{share:.0%}** of the requested bytes"
    ratio = format_ratio(dram.bytes / compulsory.bytes)
    return f"L2 {format_bytes(counters.l2_bytes)} · DRAM {ratio} the compulsory bytes{served}"
