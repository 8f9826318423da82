"""Widgets -> AttentionProblem, each bound to the URL, and validated again because a URL can hold anything."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms import ALGORITHMS
from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu
from kernels.problem import BLOCKS, DTYPES, INPUTS, LIMITS, MASKS, AttentionProblem, InvalidProblem
from kernels.problem.presets import FIRST_PRESET, PRESETS

INTERPRETER_LENGTH = 16384
DEFAULT = PRESETS[FIRST_PRESET].problem
FIELDS = tuple(DEFAULT.as_dict())
CUSTOM = "custom"
FIRST_ALGORITHM = next(iter(ALGORITHMS))
NONE, SAME = "none", "same"

INPUT_WORDS = {
    "normal": "scores of spread 1",
    "growing_max": "the row max grows at every tile: a rescale each step",
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
    """The problem; fields without a meaning for its mask take their default, so that the same problem is one problem."""
    if values["mask"] != "window":
        values |= {"window_left": DEFAULT.window_left, "window_right": DEFAULT.window_right}
    return AttentionProblem(**values)


def problem_controls(backend: str) -> tuple[AttentionProblem | None, DeltaGenerator]:
    """Draw the sidebar. Returns the problem, or None after showing why the choice is no valid one, and a place for a button."""
    side = st.sidebar
    preset_place, button_place = side.container(), side.container()
    with side:
        longest = INTERPRETER_LENGTH if backend != "cuda" else LIMITS["q_len"][1]
        left, right = st.columns(2)
        _number(left, "query length", "q_len", longest)
        _number(right, "key length", "kv_len", longest)
        _number(left, "head_dim", "head_dim")
        _choice(right, "mask", "mask", MASKS)
        _choice(left, "BLOCK_M", "block_m", BLOCKS, help_words="rows of a query tile")
        _choice(right, "BLOCK_N", "block_n", BLOCKS, help_words="rows of a key tile")
        _choice(left, "dtype", "dtype", tuple(DTYPES))
        _number(right, "seed", "seed")
        _choice(
            st,
            "inputs",
            "inputs",
            INPUTS,
            help_words="\n".join(f"- **{name}**: {words}" for name, words in INPUT_WORDS.items()),
        )
        with st.expander("Batch, heads, window, splits"):
            left, right = st.columns(2)
            windowed = st.session_state.get("mask", DEFAULT.mask) == "window"
            _number(left, "query heads", "q_heads", 128)
            _number(right, "key heads", "kv_heads", 128)
            _number(left, "batch", "batch", 64)
            _number(
                right,
                "key splits",
                "kv_splits",
                help_words="for split-KV decoding; 0: as many as fill the device",
            )
            _number(
                left, "keys before", "window_left", disabled=not windowed, help_words="of a sliding window"
            )
            _number(
                right, "keys after", "window_right", disabled=not windowed, help_words="of a sliding window"
            )
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


def algorithm_control() -> str:
    """The algorithm to play, by its name in ALGORITHMS; in the URL by that name, on the page by its label."""
    named = st.query_params.get("algorithm")
    st.session_state["algorithm"] = named if named in ALGORITHMS else FIRST_ALGORITHM

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
    """A second run to compare with: its problem and algorithm. None where none is asked for, or after saying why it is no valid one."""
    with st.sidebar.expander("Compare with a second run"):
        algorithm = st.selectbox("B: algorithm", [NONE, *ALGORITHMS], key="versus", bind="query-params")
        left, middle, right = st.columns(3)
        changes = {
            "block_m": left.selectbox(
                "B: BLOCK_M", [SAME, *map(str, BLOCKS)], key="versus_block_m", bind="query-params"
            ),
            "block_n": middle.selectbox(
                "B: BLOCK_N", [SAME, *map(str, BLOCKS)], key="versus_block_n", bind="query-params"
            ),
            "mask": right.selectbox("B: mask", [SAME, *MASKS], key="versus_mask", bind="query-params"),
        }
    if algorithm == NONE:
        return None
    changed = {
        field: int(value) if value.isdigit() else value for field, value in changes.items() if value != SAME
    }
    try:
        return problem.with_(**changed), algorithm
    except InvalidProblem as error:
        st.error(f"B: {error}", icon=":material/error:")
        return None


def gpu_control() -> Gpu:
    """The GPU whose on-chip memory the player draws the tiles against."""
    names = list(GPUS)
    name = st.sidebar.selectbox(
        "GPU whose SRAM is drawn", names, names.index(DEFAULT_GPU), key="gpu", bind="query-params"
    )
    return GPUS[name]


def _number(
    place: object,
    label: str,
    field: str,
    high: int | None = None,
    disabled: bool = False,
    help_words: str | None = None,
) -> None:
    low, limit = LIMITS[field]
    high = min(high or limit, limit)
    place.number_input(
        label,
        low,
        high,
        getattr(DEFAULT, field),
        1,
        key=field,
        bind="query-params",
        disabled=disabled,
        help=help_words,
    )


def _choice(place: object, label: str, field: str, options: tuple, help_words: str | None = None) -> None:
    place.selectbox(
        label,
        options,
        options.index(getattr(DEFAULT, field)),
        key=field,
        bind="query-params",
        help=help_words,
    )
