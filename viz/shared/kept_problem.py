"""One problem for Explore, Measure and Check: what was chosen on one of them, the next one opens with."""

import contextlib

import streamlit as st
from streamlit.errors import StreamlitAPIException

from kernels.problem import AttentionProblem
from kernels.problem.presets import FIRST_PRESET, FIRST_VISIT, PRESETS
from viz.shared.link import is_just_opened, opened_with

KEPT = "kept_problem"
"""Key in the session of the problem."""
MEASURED = "measured_fields"
"""Key in the session of what Measure showed in its last run."""
SWEPT_MASKS = ("full", "causal")
"""Masks that Measure draws."""
UNCHOSEN = tuple(PRESETS[name].problem for name in (FIRST_PRESET, FIRST_VISIT))
"""What Explore shows before anything is chosen: Measure keeps its own first view until then."""


def kept_problem() -> AttentionProblem | None:
    """The problem that was chosen last; None before a choice."""
    return st.session_state.get(KEPT)


def keep_problem(problem: AttentionProblem) -> None:
    if KEPT in st.session_state or problem not in UNCHOSEN:
        st.session_state[KEPT] = problem


def open_with_kept() -> None:
    """Give the controls of Measure the kept problem, if it was just opened by a link without one.

    Call it before they are drawn.
    """
    kept = kept_problem()
    if kept is None or not is_just_opened() or measure_fields(kept).keys() & opened_with().keys():
        return
    for name, value in measure_fields(kept).items():
        st.session_state[name] = value
        with contextlib.suppress(StreamlitAPIException):  # bound to a widget, which writes it itself
            st.query_params[name] = str(value)


def as_measured(problem: AttentionProblem) -> AttentionProblem:
    """A problem as Measure can have it: as many queries as keys, full or causal, scores as they are."""
    mask = problem.mask if problem.mask in SWEPT_MASKS else "causal"
    return problem.with_(q_len=problem.kv_len, mask=mask, documents="", softcap=0, alibi=0, sink_logit=0)


def measured_words(problem: AttentionProblem) -> str:
    """What Measure does not take of a problem; "" if it takes all of it."""
    if as_measured(problem) == problem:
        return ""
    return (
        "Of your problem, Measure takes a part: as many queries as keys, the full or the causal mask, and "
        "the scores as they are."
    )


def measure_fields(problem: AttentionProblem) -> dict[str, int | str]:
    """A problem as Measure can have it, in the names of its URL."""
    part = as_measured(problem)
    return {
        **{"hd": part.head_dim, "len": part.kv_len, "seqs": part.batch, "load": "batch", "gpu_load": "batch"},
        **{"heads": part.q_heads, "gpu_heads": part.q_heads, "kv": part.kv_heads},
        **{"masking": part.mask, "element": part.dtype},
    }


def keep_measured(problem: AttentionProblem, names: set[str]) -> None:
    """Remember those of `names` that were changed on Measure, or that its link gave; the rest stays.

    Call it in each run of the page. What the page shows by itself is no choice.
    """
    shown = {name: getattr(problem, name) for name in names}
    before = st.session_state.get(MEASURED, shown)
    if is_just_opened():
        before = {} if opened_with().keys() & measure_fields(problem).keys() else shown
    st.session_state[MEASURED] = shown
    changed = {name for name in names if name not in before or before[name] != shown[name]}
    for together in ({"q_len", "kv_len"}, {"q_heads", "kv_heads"}):
        changed |= together if changed & together else set()
    if changed:
        base = kept_problem() or PRESETS[FIRST_PRESET].problem
        keep_problem(base.with_(**{name: getattr(problem, name) for name in changed}))
