"""Determinism and batch invariance: which bits change if the same rows are run in another way."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from kernels.check.cases import estimated_seconds
from kernels.check.result import CheckResult
from kernels.check.variations import Determinism
from kernels.worker.case_requests import DeterminismRequest
from viz.check.context import CheckContext
from viz.check.sensitivity import can_vary
from viz.shared.waiting import result_of

RUNS = 12
"""About as many runs of the kernel as the variations take, batches of several sequences among them."""


def determinism_panel(context: CheckContext, result: CheckResult) -> Determinism | None:
    """The variations, asked for by a button; then one line each. None while there are none."""
    if not can_vary(result):
        return None
    st.subheader("Determinism and batch invariance", anchor="determinism")
    st.caption(
        "A row's result should not depend on when it is computed, on what else is in the batch, or on where "
        "the row lies. Here its bits are compared. A few ulps are rounding; they do not change the verdict."
    )
    seconds = RUNS * estimated_seconds(replace(result.case, repeats=1), context.backend)
    request = DeterminismRequest(result.case, context.version(result.case))
    button = f"Compare bit by bit (about {seconds:,.0f} s)"
    job = context.store.peek(request)
    if job is None:
        start, args = context.store.start, (request, context.file)
        st.button(button, icon=":material/compare_arrows:", key="ask-determinism", on_click=start, args=args)
        return None
    determinism = result_of(context.store, job, "determinism", wait_s=0)
    if determinism:
        _draw(determinism)
    return determinism


def _draw(determinism: Determinism) -> None:
    st.markdown(f"**{determinism.sentence}**")
    rows = [
        {"what changes": each.title, "run": each.label, "result": each.words}
        for each in determinism.variations
    ]
    if rows:
        st.dataframe(rows, hide_index=True, width="stretch")
    for note in determinism.notes:
        st.caption(f":material/info: {note}")
