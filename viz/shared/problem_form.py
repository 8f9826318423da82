"""Widgets -> AttentionProblem, each bound to the URL, and validated again because a URL can hold anything."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu, gpu_named
from kernels.problem import BLOCKS, DTYPES, INPUTS, LIMITS, MASKS, AttentionProblem, InvalidProblem
from kernels.problem.presets import FIRST_PRESET, PRESETS
from kernels.problem.words import DEFAULT_TEXT, FIRST_TOKEN, LONGEST, words_in
from viz.shared.formats import format_count
from viz.shared.kept_problem import keep_problem, kept_problem
from viz.shared.layout import number_field
from viz.shared.link import UrlField, begin_with, is_back, is_just_opened, opened_with, replace_in_url
from viz.shared.run_request import RunRequest

DEFAULT = PRESETS[FIRST_PRESET].problem
CUSTOM = "custom"
NONE, SAME = "none", "same"
CHOICES: Mapping[str, tuple] = {
    "mask": MASKS,
    "block_m": BLOCKS,
    "block_n": BLOCKS,
    "dtype": tuple(DTYPES),
    "inputs": INPUTS,
}
"""Fields that have one of a few values; the others are whole numbers within LIMITS."""
PROBLEM_IN_LINK = {
    name: UrlField(name, default, CHOICES.get(name) or range(LIMITS[name][0], LIMITS[name][1] + 1))
    for name, default in DEFAULT.as_dict().items()
    if name in LIMITS or name in CHOICES
}
PROBLEM_IN_LINK |= {
    name: UrlField(name, getattr(DEFAULT, name)) for name in ("text", "documents", "expression")
}
ALGORITHM = UrlField("algorithm", FIRST, tuple(ALGORITHMS))
ALGORITHM_LABELS = {name: algorithm.label for name, algorithm in ALGORITHMS.items()}
VERSUS = UrlField("versus", NONE, (NONE, *ALGORITHMS))
SECOND = {
    name: UrlField(f"versus_{name}", SAME, (SAME, *CHOICES[name])) for name in ("block_m", "block_n", "mask")
}
"""What a second run may have otherwise, by the field of the problem."""
EXPLORE_IN_LINK = (ALGORITHM, *PROBLEM_IN_LINK.values(), VERSUS, *SECOND.values())

FIELDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
INPUT_HELP = "\n".join(f"- **{name}**: {words}" for name, words in FIELDS["inputs"].items())
EXAMPLE = "example_documents"
"""Key in the session of the lengths that were filled in: they follow the number of keys until changed."""
OF_MASK = {
    "window": ("window_left", "window_right"),
    "sinks": ("window_left", "prefix"),
    "prefix": ("prefix",),
    "documents": ("documents",),
    "expression": ("expression",),
}
"""Fields that a mask alone uses."""
OF_ANY_MASK = {name for names in OF_MASK.values() for name in names}
PRESET_ALGORITHMS = {preset.algorithm for preset in PRESETS.values() if preset.algorithm}
"""Algorithms that a preset brings: a preset that brings none takes them back."""


def _take_preset() -> None:
    preset = PRESETS.get(st.session_state["preset"])
    if preset:
        st.session_state.update(preset.problem.as_dict())
        taken_back = FIRST if st.session_state.get("algorithm") in PRESET_ALGORITHMS else None
        if algorithm := preset.algorithm or taken_back:
            st.query_params["algorithm"] = algorithm


def _take_link(first: AttentionProblem) -> None:
    """Give the controls the problem of the URL; one that names none stands for the kept problem, or `first`.

    A link has its whole problem: what Streamlit hides of it, and DEFAULT for the rest.
    """
    given, names = opened_with(), {ALGORITHM.name, VERSUS.name, *PROBLEM_IN_LINK}
    if names & {*given}:
        for name, field in PROBLEM_IN_LINK.items():
            value = field.read(given.get(name))
            if value is not None:
                st.session_state[name] = value
            elif name not in st.query_params:  # else its control refuses it
                st.session_state[name] = getattr(DEFAULT, name)
        return
    kept, names_one = kept_problem(), bool(names & {*st.query_params})
    if is_just_opened() and kept:
        st.session_state.update(kept.as_dict())
    elif is_just_opened() or is_back():
        if not names_one:
            begin_with(_in_link(first.as_dict()))
        return
    _keep_link(first, names_one)


def _in_link(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of the values of a problem, those that a link has: what differs from DEFAULT."""
    return {name: values[name] for name in PROBLEM_IN_LINK if values[name] != getattr(DEFAULT, name)}


def _keep_link(first: AttentionProblem, names_one: bool) -> None:
    """Write the problem into the URL if that stands for another one: as one step, which Back undoes."""
    fields = {name: getattr(DEFAULT, name) for name in PROBLEM_IN_LINK}
    read = {
        name: PROBLEM_IN_LINK[name].read(text) for name, text in st.query_params.items() if name in fields
    }
    url = fields | {name: value for name, value in read.items() if value is not None}
    shown = _in_link({name: st.session_state.get(name, value) for name, value in url.items()})
    if shown != (_in_link(url) if names_one else _in_link(first.as_dict())):
        # one without fields is a link to DEFAULT if it names an algorithm
        named = {} if first == DEFAULT else {ALGORITHM.name: st.session_state[ALGORITHM.name]}
        replace_in_url({*fields}, shown | named)


def _problem() -> AttentionProblem:
    """The chosen problem. Fields that its mask does not use take their default: equal problems compare equal.

    Raises InvalidProblem.
    """
    values = {name: st.session_state.get(name, getattr(DEFAULT, name)) for name in PROBLEM_IN_LINK}
    if values["inputs"] != "text":
        values["text"] = DEFAULT.text
    for name in OF_ANY_MASK - _used(values["mask"], values["expression"]):
        values[name] = getattr(DEFAULT, name)
    return AttentionProblem(**values)


def _used(mask: str, expression: str = "") -> set[str]:
    """The fields that a mask alone uses, documents among them if an expression asks for them."""
    asks = mask == "expression" and "doc(" in expression
    return {*OF_MASK.get(mask, ())} | ({"documents"} if asks else set())


def problem_controls(first: AttentionProblem = DEFAULT) -> tuple[AttentionProblem | None, DeltaGenerator]:
    """Draw the sidebar. Returns the problem and a place for a button; `first` is that of a URL without one.

    The problem is None if the choice is not valid; the page says why.
    """
    _take_link(first)
    preset_place, button_place, text_place = (st.sidebar.container() for _ in range(3))
    with st.sidebar:
        _fields(FIELDS["shape"])
        _field(st.container(), "mask", "mask", "")
        _words_of_mask()
        _field(st.container(), "inputs", "inputs", INPUT_HELP)
        with st.expander("Batch, heads, splits, scores"):
            _fields(FIELDS["further"])
    if st.session_state["inputs"] == "text":
        with text_place:
            st.text_area("text", key="text", max_chars=LONGEST, placeholder=DEFAULT_TEXT, bind="query-params")
            _say_length(len(words_in(st.session_state["text"])))
    problem = None
    try:
        problem = _problem()
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
    if problem:
        keep_problem(problem)
    same = (name for name, preset in PRESETS.items() if preset.problem == problem)
    shown = st.session_state["preset"] = next(same, CUSTOM)
    preset_place.selectbox(
        "Start from",
        [*PRESETS, *([CUSTOM] if shown == CUSTOM else [])],
        key="preset",
        format_func=lambda name: PRESETS[name].label if name in PRESETS else "your own problem",
        on_change=_take_preset,
        help="\n".join(f"- **{preset.label}**: {preset.purpose}" for preset in PRESETS.values()),
    )
    return problem, button_place


def _say_length(words: int) -> None:
    """What becomes of a text that is not as long as the sequence."""
    tokens = max(st.session_state["q_len"], st.session_state["kv_len"])
    if words + 1 != tokens:
        what = "repeated" if words + 1 < tokens else "cut"
        st.caption(f"`{FIRST_TOKEN}` and {format_count(words, 'word')}, {what} to {tokens:,}")


def _words_of_mask() -> None:
    """What a mask has beside its name, if that is a text."""
    used = _used(st.session_state["mask"], st.session_state.get("expression", DEFAULT.expression))
    keys = st.session_state.get("kv_len", DEFAULT.kv_len)
    example = f"{keys // 3} {keys // 6} {keys - keys // 3 - keys // 6}"
    if "documents" in used and st.session_state.get("documents", "") in ("", st.session_state.get(EXAMPLE)):
        st.session_state["documents"] = st.session_state[EXAMPLE] = example
    for name, (label, about) in FIELDS["of_mask"].items():
        if name in used:
            st.text_input(label, getattr(DEFAULT, name), key=name, help=about, bind="query-params")


def _fields(table: dict[str, list[str]]) -> None:
    columns = st.columns(2)
    for place, (field, (label, about)) in enumerate(table.items()):
        _field(columns[place % 2], field, label, about)


def _field(column: DeltaGenerator, field: str, label: str, about: str) -> None:
    """A field of the problem: one of several values, or a whole number within its limits."""
    default: Any = getattr(DEFAULT, field)
    if options := CHOICES.get(field):
        look: dict[str, Any] = {"key": field, "bind": "query-params", "help": about or None}
        column.selectbox(label, options, options.index(default), **look)
        return
    low, high = LIMITS[field]
    is_unused = field in OF_ANY_MASK - _used(st.session_state.get("mask", DEFAULT.mask))
    about += ". " if about else ""
    number_field(column, label, low, high, default, field, about, disabled=is_unused)


def algorithm_control() -> str:
    """The algorithm to play, by its name in ALGORITHMS; in the URL by that name, on the page by its label."""
    ideas = "\n".join(f"- **{algorithm.label}**: {algorithm.idea}" for algorithm in ALGORITHMS.values())
    return by_name(st.sidebar, "Algorithm", ALGORITHM, ALGORITHM_LABELS, ideas)


def by_name(
    place: DeltaGenerator,
    label: str,
    field: UrlField,
    labels: Mapping[str, str],
    help_words: str | None = None,
) -> str:
    """A choice that is in the URL by its name, and on the page by its label if it has one."""
    named = st.session_state[field.name] = field.read(st.query_params.get(field.name), field.default)
    if st.query_params.get(field.name) != named:
        st.query_params.pop(field.name, None)

    def take() -> None:
        st.query_params[field.name] = st.session_state[field.name]
        if st.session_state[field.name] == NONE:
            del st.query_params[field.name]

    return place.selectbox(
        label,
        [str(name) for name in field.accepts],
        key=field.name,
        on_change=take,
        format_func=lambda name: labels.get(name, name),
        help=help_words,
    )


def versus_controls(problem: AttentionProblem) -> RunRequest | None:
    """A second run to compare with.

    None if none is asked for, or if the choice is not valid; then the page says why.
    """
    with st.sidebar.expander("Compare with a second run"):
        algorithm = by_name(st.container(), "B: algorithm", VERSUS, ALGORITHM_LABELS)
        places = (*st.columns(2), st.container())  # three beside each other would cut their labels
        labels = ("B: BLOCK_M", "B: BLOCK_N", "B: mask")
        changes: dict[str, Any] = {}
        for place, label, (name, field) in zip(places, labels, SECOND.items(), strict=True):
            chosen = place.selectbox(label, [*map(str, field.accepts)], key=field.name, bind="query-params")
            if chosen != SAME:
                changes[name] = field.read(chosen)
    if algorithm == NONE:
        return None
    try:
        return RunRequest(problem.with_(**changes), algorithm)
    except InvalidProblem as error:
        st.error(f"B: {error}", icon=":material/error:")
        return None


def gpu_of(device_name: str) -> Gpu:
    """The GPU whose on-chip memory the tiles are drawn against: the run's own if its limits are known."""
    return gpu_named(device_name) or GPUS[DEFAULT_GPU]
