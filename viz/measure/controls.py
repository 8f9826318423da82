"""Widgets of the Measure page -> Choice, each bound to the URL, and validated again because a URL can hold anything."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from kernels.measure.measurement import DIRECTIONS
from kernels.measure.peers import PEERS
from kernels.measure.series import AXES, View
from kernels.measure.sweep import TOKENS, WIDTH
from kernels.problem import DTYPES, LIMITS, AttentionProblem, InvalidProblem
from viz.shared import theme

ONE_POINT = "one point"
BOTH = "both"
LENGTHS = tuple(1 << power for power in range(7, 17))
HEAD_DIMS = (32, 64, 96, 128, 192, 256)
BATCHES = tuple(1 << power for power in range(7))
RANGES = {"length": LENGTHS, "head_dim": HEAD_DIMS, "batch": BATCHES}
MASKS = ("full", "causal")
LONGEST_ON_CPU = 16384
TOKENS_WORDS = f"{TOKENS:,} tokens"
HIDDEN = ("flash2",)
"""Peers of the Explore page alone: it runs with the tiles chosen there."""


@dataclass(frozen=True)
class Choice:
    """What the user asked to see and to measure."""

    view: View
    axis: str
    """One of kernels.measure.series.AXES, or "one point"."""
    points: tuple[int, ...]
    directions: tuple[str, ...]
    peers: tuple[str, ...]

    def problems(self, dtype: str) -> list[AttentionProblem]:
        """What a live sweep measures, in order of rising cost. Raises InvalidProblem."""
        return [problem_at(self.view, self.axis, x, dtype) for x in self.points]


def problem_at(view: View, axis: str, x: int, dtype: str) -> AttentionProblem:
    """The problem at a place on the axis."""
    view = replace(view, **{axis: x}) if axis in AXES else view
    shape = {"batch": view.batch, "q_heads": view.q_heads}
    if view.tokens:
        shape = {"batch": max(1, view.tokens // view.length), "q_heads": max(1, view.width // view.head_dim)}
    lengths = {"q_len": view.length, "kv_len": view.length, "kv_heads": shape["q_heads"]}
    return AttentionProblem(head_dim=view.head_dim, dtype=dtype, mask=view.mask, **shape, **lengths)


def measure_controls(backend: str) -> Choice | None:
    """Draw the sidebar. None after showing why the choice is not accepted."""
    on_cpu = backend != "cuda"
    with st.sidebar:
        which = _segments("pass", (*DIRECTIONS, BOTH), "which")
        axis = _segments("along", (*AXES, ONE_POINT), "axis")
        points = _range(axis, LONGEST_ON_CPU if on_cpu else LENGTHS[-1]) if axis in AXES else ()
        left, right = st.columns(2)
        head_dim = _pick(left, "head_dim", HEAD_DIMS, 64, "hd") if axis != "head_dim" else 64
        length = _pick(right, "length", LENGTHS, 1024, "len") if axis != "length" else 1024
        mask = _pick(left, "mask", MASKS, "full", "masking")
        dtype = _pick(right, "dtype", tuple(DTYPES), "float16", "element", DTYPE_HELP if on_cpu else None)
        shape = _shape(axis, on_cpu)
        names = [name for name in PEERS if name not in HIDDEN]
        help_words = "\n".join(f"- **{name}**: {PEERS[name].label}" for name in names)
        peers = st.multiselect("peers", names, names, key="peers", bind="query-params", help=help_words)
    view = View(axis if axis in AXES else "length", length, head_dim, dtype, mask, **shape)
    directions = DIRECTIONS if which == BOTH else (which,)
    choice = Choice(view, axis, points or ((length,) if axis == ONE_POINT else ()), directions, tuple(peers))
    return choice if _accepted(choice) else None


DTYPE_HELP = "Chooses among the recordings. On a CPU live measurements are in float32: products of 16-bit types are emulated there."


def _accepted(choice: Choice) -> bool:
    try:
        if not choice.points:
            raise InvalidProblem("from", "", "it must not lie beyond “to”")
        if not choice.peers:
            raise InvalidProblem(
                "peers", "", f"expected some of {', '.join(name for name in PEERS if name not in HIDDEN)}"
            )
        choice.problems(choice.view.dtype)
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
        return False
    return True


def _segments(label: str, options: tuple[str, ...], key: str) -> str:
    return st.segmented_control(
        label, options, default=options[0], required=True, key=key, bind="query-params"
    )


def _pick(
    place: object, label: str, options: tuple, default: object, key: str, help_words: str | None = None
) -> object:
    return place.selectbox(
        label, options, options.index(default), key=key, bind="query-params", help=help_words
    )


def _range(axis: str, longest: int) -> tuple[int, ...]:
    """The places between two ends, of those that the axis offers."""
    offered = tuple(x for x in RANGES[axis] if axis != "length" or x <= longest)
    first, last = {"length": (256, 4096), "head_dim": (64, 256), "batch": (1, 16)}[axis]
    left, right = st.columns(2)
    low = _pick(left, "from", offered, first, f"{axis}_from")
    high = _pick(right, "to", offered, last, f"{axis}_to")
    return tuple(x for x in offered if low <= x <= high)


def _shape(axis: str, on_cpu: bool) -> dict[str, int]:
    """Batch and heads, or the token count that fixes both."""
    with st.expander("Batch and heads"):
        options = ("batch", TOKENS_WORDS)
        help_words = f"{TOKENS_WORDS} a launch and heads x head_dim = {WIDTH}, as the recorded sweep: batch shrinks as the length grows."
        first, place = (
            (options[0], "") if on_cpu else (options[1], "gpu_")
        )  # keys apart: the defaults are, and a worker is slow to say which
        load = st.segmented_control(
            "hold fixed",
            options,
            default=first,
            required=True,
            key=f"{place}load",
            bind="query-params",
            help=help_words,
        )
        if load == TOKENS_WORDS and axis != "batch":
            return {"tokens": TOKENS, "width": WIDTH}
        left, right = st.columns(2)
        batch = (
            left.number_input("batch", LIMITS["batch"][0], 64, 1, key="seqs", bind="query-params")
            if axis != "batch"
            else 1
        )
        heads = right.number_input(
            "heads", LIMITS["q_heads"][0], 128, 4 if on_cpu else 16, key=f"{place}heads", bind="query-params"
        )
        return {"batch": int(batch), "q_heads": int(heads)}


def shape_words(problem: AttentionProblem, axis: str, tokens: bool) -> str:
    """What is held fixed on a chart: "head_dim 64, full, float16, 16,384 tokens a launch"."""
    parts = [] if axis == "head_dim" else [f"head_dim {problem.head_dim}"]
    if axis != "length":
        parts.append(f"length {theme.format_length(problem.q_len)}")
    parts += [problem.mask, problem.dtype]
    if tokens:
        return ", ".join(
            [
                *parts,
                f"{problem.batch * problem.q_len:,} tokens a launch, heads × head_dim = {problem.q_heads * problem.head_dim:,}",
            ]
        )
    return ", ".join(
        [*parts, *([] if axis == "batch" else [f"batch {problem.batch}"]), f"{problem.q_heads} heads"]
    )
