"""Which origins of numbers are on the page, the user's own file among them, and how each was measured."""

from __future__ import annotations

import functools

import streamlit as st

from kernels.device.gpu_state import clock_words
from kernels.measure.document import MAX_FILE_BYTES, Document, InvalidDocument
from kernels.measure.series import Curve
from viz.measure import live
from viz.measure.controls import HEAD_DIMS, LENGTHS, MASKS, Choice
from viz.measure.sources import FILE, HERE, RECORDED, Source, file_source, plain, recorded_source
from viz.shared import runs

LEFT_OUT_SHOWN = 6
SOURCE_HELP = (
    "**recorded**: measured on a named GPU at a date, and shipped. **here**: measured on this machine in this session. "
    "**file**: from a file of yours. Several can be laid over each other."
)


def source_row(store: runs.RunStore | None, backend: str, choice: Choice) -> list[Source]:
    """One row: which origins are shown, a file to lay beside them, and the button that measures here. Returns the shown sources."""
    pills, popover, button = st.columns([3, 1.4, 1.4], vertical_alignment="bottom")
    with popover.popover("Your own file", icon=":material/upload_file:", width="stretch"):
        uploaded = _upload()
    with button:
        live.start_button(store, backend, choice)
    found = [_recorded(), live.live_source(backend), *([uploaded] if uploaded else [])]
    options = [source.name for source in found]
    names = pills.pills(
        "Numbers",
        options,
        selection_mode="multi",
        default=[RECORDED, HERE],
        key="from",
        bind="query-params",
        help=SOURCE_HELP,
    )
    return [source for source in found if source.name in names]


def _recorded() -> Source:
    try:
        return recorded_source()
    except InvalidDocument as error:
        st.error(f"The shipped recording cannot be read: {error}", icon=":material/error:")
        return Source(RECORDED, Document())


def _upload() -> Source | None:
    """The user's file, or None; a file that is not accepted is explained and stays out."""
    st.markdown(
        "What `python -m kernels.measure --out my.json` or `python -m kernels.record` wrote, or this page's own JSON."
    )
    file = st.file_uploader(
        "Measurements (.json)",
        type="json",
        key="upload",
        on_change=_show_file,
        max_upload_size=MAX_FILE_BYTES >> 20,
    )
    if file is None:
        return None
    try:
        return _read(file.getvalue())
    except InvalidDocument as error:
        st.error(plain(f"{file.name} is not accepted: {error}."), icon=":material/error:")
        return None


@functools.lru_cache(maxsize=8)
def _read(content: bytes) -> Source:
    return file_source(content)


def _show_file() -> None:
    """A file that has just been dropped is shown."""
    shown = list(st.session_state.get("from") or [])
    if st.session_state.get("upload") is not None and FILE not in shown:
        st.session_state["from"] = [*shown, FILE]


def missing_words(shown: list[Source], curves: list[Curve], choice: Choice) -> None:
    """Say of each source that gave no curve what it holds instead."""
    for source in shown:
        if any(curve.source == source.name for curve in curves):
            continue
        if not source.document.measurements:
            _nothing_yet(source)
            continue
        problems = [measurement.problem for measurement in source.document.measurements]
        held = [
            "head_dim " + _listed(problem.head_dim for problem in problems),
            _listed(problem.mask for problem in problems),
            _listed(problem.dtype for problem in problems),
            "length " + _listed(problem.q_len for problem in problems),
        ]
        st.info(
            f"**{source.name}** has nothing for this choice. It holds {', '.join(held)}.",
            icon=":material/search_off:",
        )
        first = problems[0]
        if first.head_dim in HEAD_DIMS and first.mask in MASKS:
            st.button("Show what it holds", key=f"jump-{source.name}", on_click=_jump, args=(source,))


def _nothing_yet(source: Source) -> None:
    if source.name == RECORDED:
        st.info(
            "No sweep is recorded in this copy. On a GPU machine `python -m kernels.record` writes one.",
            icon=":material/history:",
        )
    elif source.name == FILE:
        st.info(
            "Your file holds no sweep; its ceilings and counters are used below.",
            icon=":material/upload_file:",
        )


def _listed(values: object) -> str:
    return ", ".join(str(value) for value in sorted(set(values)))


def _jump(source: Source) -> None:
    first = source.document.measurements[0].problem
    st.session_state.update({"hd": first.head_dim, "masking": first.mask, "element": first.dtype})
    if first.q_len in LENGTHS:
        st.session_state["len"] = first.q_len


def how_measured(shown: list[Source]) -> None:
    """Device, versions, date, command, clocks and throttling of everything on the page."""
    with st.expander("How this was measured", icon=":material/info:"):
        for source in shown:
            if source.device is None:
                continue
            st.markdown(f"**{source.name}**: {source.words}.")
            if source.document.command:
                st.code(source.document.command.replace(" && ", "\n"), language="bash")
            said = clock_words(source.document.measurements)
            if said:
                st.caption(plain(said))
            if left_out := source.document.left_out:
                st.caption(
                    plain(
                        f"Left out ({len(left_out)}): {'; '.join(left_out[:LEFT_OUT_SHOWN])}{' …' if len(left_out) > LEFT_OUT_SHOWN else ''}"
                    )
                )
        st.caption(
            "Each number is the median of calls after warm-up, peers in turn round by round, with the 10th and 90th percentile. On CUDA by device "
            "events over a captured graph, with the L2 cache flushed before each call; on a CPU by the process clock. Peak memory is what torch "
            "allocates during a call beyond the inputs; results count. TFLOP/s count 4 N² d a head, half when causal, backward 2.5 times that. "
            "Triton's interpreter is never timed."
        )
