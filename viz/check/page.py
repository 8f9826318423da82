"""Check: is this result right? One case in depth, or a grid of them."""

from __future__ import annotations

import streamlit as st

from kernels.check.cases import CheckCase
from viz.check import controls as check_controls
from viz.check import maps as check_maps
from viz.check import panels as check_panels
from viz.check.grid import grid_page
from viz.check.recorded import recorded_verdict
from viz.shared import problem_form as controls
from viz.shared import runs
from viz.shared.layout import header

store = runs.run_store()
backend = runs.backend(store)
header("Is this result right?", store)
user = check_controls.user_kernel()
kernel, gradients, repeats = check_controls.kernel_controls(backend, user)
problem, _ = controls.problem_controls(backend)
file, facts = check_controls.upload_control()
view = st.segmented_control(
    "View",
    ["case", "grid"],
    default="case",
    required=True,
    key="view",
    bind="query-params",
    label_visibility="collapsed",
)

if problem and backend in ("starting", "replay"):
    recorded_verdict(problem, backend)
elif problem and view == "grid":
    grid_page(store, backend, CheckCase(problem, kernel, gradients, repeats), user)
elif problem:
    subject = check_controls.subject_control(facts, kernel)
    problem = facts.problem(problem) if facts else problem
    case = CheckCase(problem, subject, gradients, repeats, facts.digest if facts else "")
    result = check_panels.current_check(store, backend, case, file, user)
    if result:
        check_panels.verdict(result)
        check_panels.figures(result)
        check_maps.maps(result)
        if result.tensors:
            check_panels.numbers(result)
        found = check_panels.sensitivity(store, backend, result, file, user)
        check_panels.beside_ours(store, backend, result, user)
        check_panels.report(result, found, user, st.session_state["tensors"].name if facts else "")
