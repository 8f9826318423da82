"""Widgets -> AttentionProblem, each bound to the URL, and validated again because a URL can hold anything."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu, gpu_named
from kernels.problem import BLOCKS, DTYPES, INPUTS, LIMITS, MASKS, AttentionProblem, InvalidProblem
from kernels.problem.presets import FIRST_PRESET, PRESETS
from viz.shared.formats import number_help, plain, whole_number
from viz.shared.link import REFUSED, is_known, opened_with

DEFAULT = PRESETS[FIRST_PRESET].problem
FIELDS = tuple(DEFAULT.as_dict())
CUSTOM = "custom"
NONE, SAME = "none", "same"
OWN_GPU = "run"
CHOICES: dict[str, tuple] = {
    "mask": MASKS,
    "block_m": BLOCKS,
    "block_n": BLOCKS,
    "dtype": tuple(DTYPES),
    "inputs": INPUTS,
}
"""Fields that have one of a few values."""
FURTHER: dict[str, tuple[tuple[str, ...], str]] = {
    "gpu": ((OWN_GPU, *GPUS), OWN_GPU),
    "versus": ((NONE, *ALGORITHMS), NONE),
}
"""Other choices of a link: what they may be, and what is shown if they are something else."""

VERSUS_IN_URL = ("versus", "versus_block_m", "versus_block_n", "versus_mask")
"""Names of the controls of a second algorithm in the URL."""

INPUT_WORDS = {
    "normal": "scores of spread 1",
    "growing_max": "the row max grows at every tile: each step rescales",
    "falling_max": "the row max lies in the first tile: no rescale after it",
    "large": "scores of several hundred: naive exponentials overflow",
    "one_hot": "each query finds one key",
    "constant": "all scores equal: the mean of the values",
}
PRESET_ALGORITHMS = {preset.algorithm for preset in PRESETS.values() if preset.algorithm}
"""Algorithms that a preset brings: a preset that brings none takes them back."""


def _take_preset() -> None:
    preset = PRESETS.get(st.session_state["preset"])
    if preset:
        for field, value in preset.problem.as_dict().items():
            st.session_state[field] = value
        algorithm = preset.algorithm
        if not algorithm and st.session_state.get("algorithm") in PRESET_ALGORITHMS:
            algorithm = FIRST
        if algorithm:
            st.query_params["algorithm"] = algorithm


def _take_link() -> None:
    """Give the controls the whole problem of a link, also what Streamlit hides of it, and its defaults.

    Else a value that was chosen on another page would stand for one that the link leaves out.
    """
    given = opened_with()
    if not {"algorithm", *FIELDS} & {*given}:
        return
    for field in {*FIELDS} - {*st.query_params}:  # Streamlit gives the controls what it does not hide
        default, text = getattr(DEFAULT, field), given.get(field)
        if text is None or _accepted_words(field, text):
            st.session_state[field] = default
        else:
            st.session_state[field] = text if isinstance(default, str) else int(float(text))


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


def _refuse_link_values() -> None:
    """Keep what is wrong with values of the link, before the controls replace them by their defaults."""
    refused = st.session_state.setdefault(REFUSED, {})
    for field in (*FIELDS, *FURTHER):
        given = st.query_params.get(field)
        if given is None or not is_known(field):
            continue
        accepted = _accepted_words(field, given)
        if accepted:
            refused[field] = f"{field}={plain(given[:40])} in the link is not accepted: {accepted}"


def _accepted_words(field: str, given: str) -> str:
    """What a field takes, if it does not take what was given as text; else ""."""
    if field not in LIMITS:
        options = [str(option) for option in (FURTHER[field][0] if field in FURTHER else CHOICES[field])]
        return "" if given in options else f"expected one of {', '.join(options)}."
    low, high = LIMITS[field]
    try:
        fits = low <= float(given) <= high
    except ValueError:
        fits = False
    return "" if fits else f"expected {whole_number(low, high)}."


def _say_refused() -> None:
    """Say which values of the link were not taken, until another value is chosen."""
    refused = st.session_state[REFUSED]
    for field, words in list(refused.items()):
        default = FURTHER[field][1] if field in FURTHER else getattr(DEFAULT, field)
        if st.session_state.get(field, default) != default:
            del refused[field]
        else:
            st.warning(f"{words} Shown is {default}.", icon=":material/link_off:")


def problem_controls() -> tuple[AttentionProblem | None, DeltaGenerator]:
    """Draw the sidebar. Returns the problem and a place for a button.

    The problem is None if the choice is not valid; the page says why. What a link asks for in vain is said.
    """
    _take_link()
    _refuse_link_values()
    preset_place, button_place = st.sidebar.container(), st.sidebar.container()
    with st.sidebar:
        _shape_controls()
        with st.expander("Batch, heads, window, splits"):
            _further_controls()
    _say_refused()
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


def _shape_controls() -> None:
    left, right = st.columns(2)
    _number(left, "N, queries", "q_len")
    _number(right, "M, keys", "kv_len")
    _number(left, "d, head_dim", "head_dim")
    _choice(right, "mask", "mask")
    _choice(left, "BLOCK_M", "block_m", "rows of a query tile")
    _choice(right, "BLOCK_N", "block_n", "rows of a key tile")
    _choice(left, "dtype", "dtype")
    _number(right, "seed", "seed")
    words = "\n".join(f"- **{name}**: {words}" for name, words in INPUT_WORDS.items())
    _choice(st.container(), "inputs", "inputs", words)


def _further_controls() -> None:
    left, right = st.columns(2)
    _number(left, "query heads", "q_heads")
    _number(right, "key heads", "kv_heads")
    _number(left, "batch", "batch")
    splits = "For split-KV decoding; 0: as many as fill the device. The interpreter counts as 8 SMs"
    _number(right, "key splits", "kv_splits", help_words=splits)
    unused = st.session_state.get("mask", DEFAULT.mask) != "window"
    _number(left, "keys before", "window_left", disabled=unused, help_words="Of a sliding window")
    _number(right, "keys after", "window_right", disabled=unused, help_words="Of a sliding window")


def algorithm_control() -> str:
    """The algorithm to play, by its name in ALGORITHMS; in the URL by that name, on the page by its label."""
    named = st.query_params.get("algorithm")
    if named is not None and named not in ALGORITHMS:
        known = f"expected one of {', '.join(ALGORITHMS)}"
        st.warning(
            f"algorithm={plain(named[:40])} in the link is not accepted: {known}. Shown is {FIRST}.",
            icon=":material/link_off:",
        )
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
        algorithm = _versus_algorithm()
        changes: dict[str, int | str] = {}
        options: dict[str, tuple[int, ...] | tuple[str, ...]] = {
            "block_m": BLOCKS,
            "block_n": BLOCKS,
            "mask": MASKS,
        }
        labels = ("B: BLOCK_M", "B: BLOCK_N", "B: mask")
        left, right = st.columns(2)
        places = (left, right, st.container())  # three beside each other would cut their labels
        for place, label, (field, values) in zip(places, labels, options.items(), strict=True):
            words = {str(value): value for value in values}
            chosen = place.selectbox(label, [SAME, *words], key=f"versus_{field}", bind="query-params")
            if chosen != SAME:
                changes[field] = words[chosen]
    if algorithm == NONE:
        return None
    try:
        return problem.with_(**changes), algorithm
    except InvalidProblem as error:
        st.error(f"B: {error}", icon=":material/error:")
        return None


def _versus_algorithm() -> str:
    """The algorithm of the second run, or NONE; in the URL by its name, on the page by its label."""
    named = st.query_params.get("versus")
    st.session_state["versus"] = named if named in ALGORITHMS else NONE

    def take() -> None:
        st.query_params["versus"] = st.session_state["versus"]
        if st.session_state["versus"] == NONE:
            del st.query_params["versus"]

    return st.selectbox(
        "B: algorithm",
        [NONE, *ALGORITHMS],
        key="versus",
        on_change=take,
        format_func=lambda name: ALGORITHMS[name].label if name in ALGORITHMS else name,
    )


def gpu_control() -> str:
    """The choice of the GPU whose on-chip memory the player draws the tiles against; see `gpu_of`."""
    return st.sidebar.selectbox(
        "GPU whose limits are drawn",
        FURTHER["gpu"][0],
        key="gpu",
        bind="query-params",
        format_func=lambda name: f"the run's own, else {DEFAULT_GPU}" if name == OWN_GPU else name,
        help="Shared memory, registers and number of SMs. A run on a CPU has no GPU of its own.",
    )


def gpu_of(choice: str, device_name: str) -> Gpu:
    """The chosen GPU; for the choice of the run's own, that of its device if the list has it."""
    return GPUS.get(choice) or gpu_named(device_name) or GPUS[DEFAULT_GPU]


def _number(
    column: DeltaGenerator,
    label: str,
    field: str,
    disabled: bool = False,
    help_words: str | None = None,
) -> None:
    """A whole number of the problem, within its limits."""
    low, high = LIMITS[field]
    default = getattr(DEFAULT, field)
    about = f"{help_words}. " if help_words else ""
    column.number_input(
        label,
        low,
        high,
        default,
        1,
        key=field,
        bind="query-params",
        disabled=disabled,
        help=f"{about}{number_help(low, high, default)}",
    )


def _choice(column: DeltaGenerator, label: str, field: str, help_words: str | None = None) -> None:
    """One of several values of a field of the problem."""
    options = CHOICES[field]
    default = options.index(getattr(DEFAULT, field))
    column.selectbox(label, options, default, key=field, bind="query-params", help=help_words)
