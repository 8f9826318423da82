"""The row that chooses the sources of the page's numbers, the user's own file included, and their methods."""

import streamlit as st

from kernels.device.gpu_state import clock_words
from kernels.file_format import UnreadableFile
from kernels.measure.document import MAX_FILE_BYTES
from kernels.measure.series import PeerCurve
from viz.measure import live
from viz.measure.controls import LENGTHS, Choice
from viz.measure.sources import FILE, HERE, RECORDED, Source, file_source, recorded_source
from viz.shared import runs
from viz.shared.figures.sweep import peer_label
from viz.shared.formats import plain

SOURCE_HELP = (
    "**recorded**: on the GPU and at the date named, shipped with the app. **measured**: on this machine, in"
    " this session. **file**: recorded in a file of yours, on the device and at the date that it names. "
    "Several are compared in one chart."
)
NO_SWEEP = {
    RECORDED: "This copy has no recorded sweep. On a GPU machine `python -m kernels.record` makes one.",
    FILE: "Your file holds no sweep; its ceilings and counters are used below.",
}
METHOD_WORDS = (
    "Each number is the median of samples after warm-up, with the 10th and 90th percentile. Peers take "
    "turns, one sample per round. On CUDA a sample is one call by device events around a captured graph, "
    "with the L2 flushed before it; on a CPU it is the processor time of one thread in the fastest of up to "
    "30 calls. Peak memory is what torch allocates during a call beyond the inputs; results count. TFLOP/s "
    "count 4 N² d per head, half of that if causal, 2.5 times that backward, and 4 d per visible pair under "
    "a window or a causal mask of unequal lengths. Triton's interpreter is never timed."
)


def source_row(store: runs.RunStore | None, backend: str, choice: Choice) -> list[Source]:
    """The chosen sources. One row: origins, a file to show beside them, the button that measures here."""
    pills, popover, button = st.columns([3, 1.4, 1.4], vertical_alignment="bottom")
    with popover.popover("Your own file", icon=":material/upload_file:", width="stretch"):
        uploaded = _upload()
    with button:
        live.start_button(store, backend, choice)
    sources = [recorded_source(), live.live_source(backend), *([uploaded] if uploaded else [])]
    names = pills.pills(
        "Numbers",
        [source.name for source in sources],
        selection_mode="multi",
        default=[RECORDED, HERE],
        key="from",
        bind="query-params",
        help=SOURCE_HELP,
    )
    return [source for source in sources if source.name in names]


def _upload() -> Source | None:
    """The user's file, or None after showing why it is not accepted."""
    st.markdown(
        "A file from `python -m kernels.measure --out my.json` or `python -m kernels.record`, or this page's "
        "JSON download."
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
        return file_source(file.getvalue())
    except UnreadableFile as error:
        st.error(plain(f"{file.name} is not accepted: {str(error).rstrip('.')}."), icon=":material/error:")
        return None


def _show_file() -> None:
    """Show a file as soon as it is uploaded."""
    shown = list(st.session_state.get("from") or [])
    if st.session_state.get("upload") is not None and FILE not in shown:
        st.session_state["from"] = [*shown, FILE]


def say_missing(shown: list[Source], curves: list[PeerCurve]) -> None:
    """Say of each source that gave no curve what it holds instead, and offer to show that."""
    drawn = {curve.source for curve in curves}
    for source in (source for source in shown if source.name not in drawn):
        measurements = source.document.measurements
        if not measurements:
            if source.name in NO_SWEEP:
                st.info(NO_SWEEP[source.name], icon=":material/search_off:")
            continue
        fields = {"head_dim": "head_dim", "length": "q_len", "mask": "mask", "dtype": "dtype"}
        held = {
            name: {getattr(each.problem, field) for each in measurements} for name, field in fields.items()
        }
        held["peers"] = {peer_label(result.peer) for each in measurements for result in each.results}
        words = "; ".join(f"{name} {', '.join(map(str, sorted(values)))}" for name, values in held.items())
        nothing = f"**{source.name}** has nothing for this choice. It holds {plain(words)}."
        st.info(nothing, icon=":material/search_off:")
        st.button("Show what it holds", key=f"jump-{source.name}", on_click=_jump, args=(source,))


def _jump(source: Source) -> None:
    """Choose the source's first problem, and all peers."""
    first = source.document.measurements[0].problem
    st.session_state.update({"hd": first.head_dim, "masking": first.mask, "element": first.dtype})
    if first.q_len in LENGTHS:
        st.session_state["len"] = first.q_len
    st.query_params.pop("peers", None)


def how_measured(shown: list[Source]) -> None:
    """Device, versions, date, command, clocks and throttling of everything on the page."""
    with st.expander("How this was measured", icon=":material/info:"):
        for source in (source for source in shown if source.device is not None):
            document = source.document
            st.markdown(f"**{source.name}**: {source.words}.")
            if document.command:
                st.code(document.command.replace(" && ", "\n"), language=None)
            states = [measurement.gpu for measurement in document.measurements if measurement.gpu is not None]
            if clocks := clock_words(states):
                st.caption(plain(clocks))
            if document.left_out:
                st.caption(plain(f"Left out ({len(document.left_out)}): {'; '.join(document.left_out)}"))
        st.caption(METHOD_WORDS)
