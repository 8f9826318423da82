"""Time and memory of the user's kernels beside ours and torch's, on the same tensors."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from kernels.check.cases import USERS
from kernels.check.result import CheckResult
from kernels.worker.requests import MeasureRequest
from viz.check.context import CheckContext
from viz.shared.figures.comparison import memory_figure, time_figure
from viz.shared.layout import colors, plot
from viz.shared.runs import measured_problem
from viz.shared.waiting import result_of

PEERS = {"cuda": ("ours", "sdpa_flash", "sdpa_cudnn", "naive"), "interpreter": ("sdpa", "naive")}


def beside_ours_panel(context: CheckContext, result: CheckResult) -> None:
    """The measurement; nothing for other kernels, and no time for a kernel that the interpreter ran."""
    case = result.case
    if case.kernel not in USERS or result.refused or result.broken or case.upload:
        return
    st.subheader("Time and memory beside ours", anchor="cost")
    if result.interpreted:
        st.caption(
            "Triton's interpreter ran your kernel, so its time says nothing about the kernel's speed. On a "
            "CUDA GPU the kernel is timed here beside ours and torch's."
        )
        return
    problem = measured_problem(case.problem, context.backend)
    named = USERS[: len(context.users)]
    versions = " ".join(context.version(replace(case, kernel=name)) for name in named)
    request = MeasureRequest(problem, peers=(*named, *PEERS[context.backend]), kernel_version=versions)
    measurement = result_of(context.store, context.store.job(request), "cost", wait_s=0.1)
    if measurement is None:
        return
    st.caption(
        f"**Measured** here on {measurement.device.name}, {problem.dtype}: median, peers in turn on the same "
        "tensors."
    )
    left, right = st.columns(2, gap="large")
    with left:
        plot(time_figure(measurement, colors()), key="time")
    with right:
        plot(memory_figure(measurement, colors()), key="memory")
