"""How the error of a case moves with its tiles and with the scale of its input."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from kernels.check.cases import UPLOADED, estimated_seconds
from kernels.check.result import CheckResult, Sensitivity, SensitivityPoint
from viz.check.context import CheckContext
from viz.check.figures.sensitivity import blocks_figure, scales_figure
from viz.shared import runs
from viz.shared.layout import colors, plot
from viz.shared.waiting import asked_job, result_of

VARIATIONS = 8
"""About as many runs of the kernel as the variations take."""
BLOCKS_WORDS = (
    "**Tile sizes.** The same inputs with other tiles. The order of the sums changes; the result must not."
)
SCALES_WORDS = (
    "**Scale of the input.** The query times powers of two, up to the first that its type cannot hold."
)


def can_vary(result: CheckResult) -> bool:
    """Whether tiles and scale of the case can be varied: its kernel ran, here."""
    return result.case.kernel != UPLOADED and not (result.refused or result.broken or result.stopped)


def sensitivity_panel(context: CheckContext, result: CheckResult) -> Sensitivity | None:
    """The variations, asked for at once if they are quick. None while there are none."""
    if not can_vary(result):
        return None
    st.subheader("Sensitivity", anchor="sensitivity")
    one_run = replace(result.case, gradients=False, repeats=1, upload="")
    seconds = VARIATIONS * estimated_seconds(one_run, context.backend)
    button = f"Vary tiles and scale (about {seconds:,.0f} s)"
    request = context.sensitivity(result.case)
    job = asked_job(
        context.store, request, seconds, button, blob=context.file, key="ask-sensitivity", holder=_holder()
    )
    sensitivity = result_of(context.store, job, "sensitivity", wait_s=0) if job else None
    if sensitivity:
        _draw(sensitivity)
    return sensitivity


def let_variations_go(context: CheckContext) -> None:
    """Take the variations of the case before out of the queue: the reader waits for the check of another."""
    context.store.let_go(_holder(), ends_running=False)


def _holder() -> str:
    return f"{runs.session_name()} variations"


def _draw(sensitivity: Sensitivity) -> None:
    for note in sensitivity.notes:
        st.caption(f":material/info: {note}")
    blocks, scales = st.columns(2, gap="large") if sensitivity.blocks else [st.container()] * 2
    if sensitivity.blocks:
        with blocks:
            _blocks(sensitivity.blocks)
    if sensitivity.scales:
        with scales:
            st.caption(SCALES_WORDS)
            plot(scales_figure(sensitivity.scales, colors()), key="scales")


def _blocks(points: tuple[SensitivityPoint, ...]) -> None:
    st.caption(BLOCKS_WORDS)
    plot(blocks_figure(points, colors()), key="blocks")
    for point in points:
        if point.refused:
            st.caption(f"{point.label}: {point.refused}")
