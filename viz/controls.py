"""Widgets -> AttentionProblem, each bound to the URL, and validated again because a URL can hold anything."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.hardware import DEFAULT_GPU, GPUS, Gpu
from kernels.presets import FIRST_PRESET, PRESETS
from kernels.problem import BLOCKS, DTYPES, INPUTS, LIMITS, MASKS, AttentionProblem, InvalidProblem

INTERPRETER_LENGTH = 16384
DEFAULT = PRESETS[FIRST_PRESET].problem
FIELDS = tuple(DEFAULT.as_dict())
CUSTOM = "custom"

INPUT_WORDS = {
    "normal": "scores of spread 1",
    "growing_max": "the row max grows at every tile: a rescale each step",
    "falling_max": "the row max lies in the first tile: no rescale after it",
    "large": "scores of several hundred: naive exponentials overflow",
    "one_hot": "each query finds one key",
    "constant": "all scores equal: the mean of the values",
}


def _take_preset() -> None:
    name = st.session_state["preset"]
    if name in PRESETS:
        for field, value in PRESETS[name].problem.as_dict().items():
            st.session_state[field] = value


def _matching_preset() -> str:
    current = {field: st.session_state.get(field, getattr(DEFAULT, field)) for field in FIELDS}
    return next((name for name, preset in PRESETS.items() if preset.problem.as_dict() == current), CUSTOM)


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
        _choice(st, "inputs", "inputs", INPUTS, help_words="\n".join(f"- **{name}**: {words}" for name, words in INPUT_WORDS.items()))
        with st.expander("Batch and heads"):
            _number(st, "batch", "batch", 64)
            _number(st, "query heads", "q_heads", 128)
            _number(st, "key and value heads", "kv_heads", 128)
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
        return AttentionProblem(**{field: st.session_state[field] for field in FIELDS}), button_place
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
        return None, button_place


def gpu_control() -> Gpu:
    """The GPU whose on-chip memory the player draws the tiles against."""
    names = list(GPUS)
    name = st.sidebar.selectbox("GPU whose SRAM is drawn", names, names.index(DEFAULT_GPU), key="gpu", bind="query-params")
    return GPUS[name]


def _number(place: object, label: str, field: str, high: int | None = None) -> None:
    low, limit = LIMITS[field]
    high = min(high or limit, limit)
    place.number_input(label, low, high, getattr(DEFAULT, field), 1, key=field, bind="query-params")


def _choice(place: object, label: str, field: str, options: tuple, help_words: str | None = None) -> None:
    place.selectbox(
        label,
        options,
        options.index(getattr(DEFAULT, field)),
        key=field,
        bind="query-params",
        help=help_words,
    )
