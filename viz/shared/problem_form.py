"""Widgets -> AttentionProblem, each bound to the URL, and validated again because a URL can hold anything."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu
from kernels.problem import BLOCKS, DTYPES, INPUTS, LIMITS, MASKS, AttentionProblem, InvalidProblem
from kernels.problem.presets import FIRST_PRESET, PRESETS

INTERPRETER_LENGTH = 16384
DEFAULT = PRESETS[FIRST_PRESET].problem
FIELDS = tuple(DEFAULT.as_dict())
CUSTOM = "custom"
NONE, SAME = "none", "same"

INPUT_WORDS = {
    "normal": "scores of spread 1",
    "growing_max": "the row max grows at every tile: each step rescales",
    "falling_max": "the row max lies in the first tile: no rescale after it",
    "large": "scores of several hundred: naive exponentials overflow",
    "one_hot": "each query finds one key",
    "constant": "all scores equal: the mean of the values",
}


def _take_preset() -> None:
    preset = PRESETS.get(st.session_state["preset"])
    if preset:
        for field, value in preset.problem.as_dict().items():
            st.session_state[field] = value
        if preset.algorithm:
            st.query_params["algorithm"] = preset.algorithm


def _matching_preset() -> str:
    try:
        current = _problem_of(
            {field: st.session_state.get(field, getattr(DEFAULT, field)) for field in FIELDS}
        )
    except InvalidProblem:
        return CUSTOM
    return next((name for name, preset in PRESETS.items() if preset.problem == current), CUSTOM)


def _problem_of(values: dict) -> AttentionProblem:
    """The problem. Fields that its mask does not use take their default: so equal problems compare equal."""
    if values["mask"] != "window":
        values |= {"window_left": DEFAULT.window_left, "window_right": DEFAULT.window_right}
    return AttentionProblem(**values)


def problem_controls(backend: str) -> tuple[AttentionProblem | None, DeltaGenerator]:
    """Draw the sidebar. Returns the problem and a place for a button.

    The problem is None if the choice is not valid; the page says why.
    """
    preset_place, button_place = st.sidebar.container(), st.sidebar.container()
    with st.sidebar:
        _shape_controls(backend)
        with st.expander("Batch, heads, window, splits"):
            _further_controls()
    st.session_state["preset"] = _matching_preset()
    preset_place.selectbox(
        "Start from",
        [*PRESETS, *([CUSTOM] if st.session_state["preset"] == CUSTOM else [])],
        key="preset",
        format_func=lambda name: PRESETS[name].label if name in PRESETS else "your own problem",
        on_change=_take_preset,
        help="\n".join(f"- **{preset.label}**: {preset.purpose}" for preset in PRESETS.values()),
    )
    try:
        return _problem_of({field: st.session_state[field] for field in FIELDS}), button_place
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
        return None, button_place


def _shape_controls(backend: str) -> None:
    on_a_gpu = backend in ("cuda", "starting")  # a link may come before the worker is ready
    longest = LIMITS["q_len"][1] if on_a_gpu else INTERPRETER_LENGTH
    left, right = st.columns(2)
    _number(left, "query length", "q_len", longest)
    _number(right, "key length", "kv_len", longest)
    _number(left, "head_dim", "head_dim")
    _choice(right, "mask", "mask", MASKS)
    _choice(left, "BLOCK_M", "block_m", BLOCKS, "rows of a query tile")
    _choice(right, "BLOCK_N", "block_n", BLOCKS, "rows of a key tile")
    _choice(left, "dtype", "dtype", tuple(DTYPES))
    _number(right, "seed", "seed")
    words = "\n".join(f"- **{name}**: {words}" for name, words in INPUT_WORDS.items())
    _choice(st.container(), "inputs", "inputs", INPUTS, words)


def _further_controls() -> None:
    left, right = st.columns(2)
    _number(left, "query heads", "q_heads", 128)
    _number(right, "key heads", "kv_heads", 128)
    _number(left, "batch", "batch", 64)
    splits = "for split-KV decoding; 0: as many as fill the device"
    _number(right, "key splits", "kv_splits", help_words=splits)
    unused = st.session_state.get("mask", DEFAULT.mask) != "window"
    _number(left, "keys before", "window_left", disabled=unused, help_words="of a sliding window")
    _number(right, "keys after", "window_right", disabled=unused, help_words="of a sliding window")


def algorithm_control() -> str:
    """The algorithm to play, by its name in ALGORITHMS; in the URL by that name, on the page by its label."""
    named = st.query_params.get("algorithm")
    st.session_state["algorithm"] = named if named in ALGORITHMS else FIRST

    def take() -> None:
        st.query_params["algorithm"] = st.session_state["algorithm"]

    return st.sidebar.selectbox(
        "Algorithm",
        list(ALGORITHMS),
        key="algorithm",
        on_change=take,
        format_func=lambda name: ALGORITHMS[name].label,
        help="\n".join(f"- **{algorithm.label}**: {algorithm.idea}" for algorithm in ALGORITHMS.values()),
    )


def versus_controls(problem: AttentionProblem) -> tuple[AttentionProblem, str] | None:
    """Problem and algorithm of a second run to compare with.

    None if none is asked for, or if the choice is not valid; then the page says why.
    """
    with st.sidebar.expander("Compare with a second run"):
        algorithm = st.selectbox("B: algorithm", [NONE, *ALGORITHMS], key="versus", bind="query-params")
        changes: dict[str, int | str] = {}
        options: dict[str, tuple[int, ...] | tuple[str, ...]] = {
            "block_m": BLOCKS,
            "block_n": BLOCKS,
            "mask": MASKS,
        }
        labels = ("B: BLOCK_M", "B: BLOCK_N", "B: mask")
        for column, label, (field, values) in zip(st.columns(3), labels, options.items(), strict=True):
            words = {str(value): value for value in values}
            chosen = column.selectbox(label, [SAME, *words], key=f"versus_{field}", bind="query-params")
            if chosen != SAME:
                changes[field] = words[chosen]
    if algorithm == NONE:
        return None
    try:
        return problem.with_(**changes), algorithm
    except InvalidProblem as error:
        st.error(f"B: {error}", icon=":material/error:")
        return None


def gpu_control() -> Gpu:
    """The GPU whose on-chip memory the player draws the tiles against."""
    names = list(GPUS)
    default = names.index(DEFAULT_GPU)
    name = st.sidebar.selectbox("GPU whose SRAM is drawn", names, default, key="gpu", bind="query-params")
    return GPUS[name]


def _number(
    column: DeltaGenerator,
    label: str,
    field: str,
    highest: int | None = None,
    disabled: bool = False,
    help_words: str | None = None,
) -> None:
    """A whole number of the problem, up to its limit or to `highest`."""
    low, limit = LIMITS[field]
    column.number_input(
        label,
        low,
        min(highest or limit, limit),
        getattr(DEFAULT, field),
        1,
        key=field,
        bind="query-params",
        disabled=disabled,
        help=help_words,
    )


def _choice(
    column: DeltaGenerator, label: str, field: str, options: tuple, help_words: str | None = None
) -> None:
    """One of several values of a field of the problem."""
    default = options.index(getattr(DEFAULT, field))
    column.selectbox(label, options, default, key=field, bind="query-params", help=help_words)
