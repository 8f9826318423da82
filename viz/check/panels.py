"""Panels of the Check page: verdict, figures, numbers, sensitivity, measurement beside ours, report."""

from __future__ import annotations

import streamlit as st

from kernels.check.cases import UPLOADED, USER, CheckCase, estimated_seconds
from kernels.check.report import RULE, shell_command, to_html, to_json
from kernels.check.result import CheckResult, Sensitivity, TensorCheck
from kernels.check.user_kernel import UserKernel
from kernels.problem import InvalidProblem
from kernels.worker.client import Cancelled, Job, JobFailure
from viz.check.figures.errors import errors_figure, ulps_figure
from viz.check.figures.sensitivity import blocks_figure, scales_figure
from viz.check.runs import can_vary, finished_check, finished_sensitivity, version_of
from viz.shared import runs, theme
from viz.shared.figures.comparison import memory_figure, time_figure
from viz.shared.formats import format_error
from viz.shared.layout import colors, plot

WAIT_S = 1.2
IMMEDIATE_S = 8.0
VERDICTS = {
    "pass": ":green[:material/check_circle: PASSES]",
    "fail": ":red[:material/cancel: FAILS]",
    "invalid": ":gray[:material/block: NOT CHECKED]",
}


def waiting(job: Job, key: str) -> None:
    """A bar that moves while the job runs, with a way to stop it."""
    if job.done:
        st.rerun()
    ahead = job.jobs_ahead
    words = f"{ahead} {'job' if ahead == 1 else 'jobs'} ahead in the queue" if ahead else job.label
    st.progress(min(job.fraction, 1.0), text=words)
    if st.button("Cancel", icon=":material/stop:", key=key):
        job.cancel()
        job.wait(5)
        st.rerun()


@st.fragment(run_every=0.3)
def _wait_for_check(job: Job) -> None:
    waiting(job, "cancel-check")


@st.fragment(run_every=0.5)
def _wait_for_sensitivity(job: Job) -> None:
    waiting(job, "cancel-sensitivity")


def current_check(
    store: runs.RunStore, backend: str, case: CheckCase, file: bytes, user: UserKernel | None
) -> CheckResult | None:
    """The result of the case, asked for here; None while there is none yet, after saying why."""
    version = version_of(case, user)
    job = store.peek("check", case, "case" + version)
    if job is None:
        seconds = estimated_seconds(case, backend)
        if seconds > IMMEDIATE_S:
            st.info(f"This check takes about {seconds:,.0f} s here.", icon=":material/timer:")
            if not st.button("Check", type="primary", icon=":material/play_arrow:"):
                return None
        job = store.check(case, file=file, kernel_version=version)
    if not job.wait(WAIT_S):
        _wait_for_check(job)
        return None
    return _ended(store, job, finished_check, "again-check")


def _ended(store: runs.RunStore, job: Job, read: object, key: str) -> object | None:
    try:
        return read(job)
    except (InvalidProblem, JobFailure) as error:
        (st.info if isinstance(error, Cancelled) else st.error)(str(error), icon=":material/error:")
        if st.button("Try again", icon=":material/refresh:", key=key):
            store.forget(job)
            st.rerun()
        return None


# --- verdict and numbers ---------------------------------------------------------------------------------------------


def verdict(result: CheckResult) -> None:
    """PASSES or FAILS, why, and where the numbers are from."""
    st.markdown(f"## {VERDICTS[result.verdict]}")
    st.markdown(f"**{result.label}**: {result.reason}.", help=RULE)
    device = result.device
    by = (
        "run here by Triton's interpreter"
        if result.interpreted
        else "a result from your file, judged"
        if result.case.kernel == UPLOADED
        else "run here"
    )
    source = (
        "tensors of your file"
        if result.case.upload
        else f"{result.case.problem.inputs} inputs, seed {result.case.problem.seed}"
    )
    st.caption(
        f"**Measured**: {by} on {device.name}, torch {device.torch}, Triton {device.triton}; {source}."
    )
    for note in result.notes:
        st.caption(f":material/info: {note}")
    if result.keyless:
        right, wrong = result.keyless.right, max(result.keyless.wrong_output, result.keyless.wrong_lse)
        words = (
            "all give 0 and lse −∞, as they must"
            if right
            else f":red[{wrong:,} of them do not give 0 and lse −∞]"
        )
        st.caption(f":material/info: {result.keyless.count:,} rows see no key: {words}.")


def figures(result: CheckResult) -> None:
    """One card a tensor, and one for repeatability."""
    row = st.container(horizontal=True, gap="small", key="figures")
    for tensor in result.tensors:
        color = "green" if tensor.passes else "red"
        explained = f"Mean error {tensor.mean_error:.1e}. {_reference_words(tensor)} Largest error at {_where(tensor)}."
        row.metric(
            f"{tensor.name} error", format_error(tensor.max_error), _share_words(tensor), delta_color=color, delta_arrow="off",
            help=explained, border=True,
        )  # fmt: skip
    if result.repeats and result.repeats.runs > 1:
        equal = result.repeats.equal
        value = "equal" if equal else "differ"
        counted = f"{sum(result.repeats.differing.values()):,}"
        words = (
            "bit by bit" if equal else f"{counted} values, by up to {format_error(result.repeats.largest)}"
        )
        help_words = "The same inputs again and again. Different bits mean atomics, a race or memory that nobody wrote; it is no part of the verdict."
        row.metric(
            f"{result.repeats.runs} runs",
            value,
            words,
            delta_color="green" if equal else "red",
            delta_arrow="off",
            help=help_words,
            border=True,
        )


def _share_words(tensor: TensorCheck) -> str:
    if tensor.wrong_nonfinite:
        return f"{tensor.wrong_nonfinite:,} NaN or ∞"
    return f"{'≤' if tensor.passes else 'FAILS: >'} {format_error(tensor.tolerance)}"


def _reference_words(tensor: TensorCheck) -> str:
    return f"Reference ({tensor.reference}): {tensor.naive_max_error:.1e}, mean {tensor.naive_mean_error:.1e}; ratio {tensor.ratio:.2f}."


def _where(tensor: TensorCheck) -> str:
    axes = ("batch", "head", "row", "column")
    place = ", ".join(f"{axis} {index}" for axis, index in zip(axes, tensor.worst, strict=False))
    return f"{place}: {tensor.worst_value:.6g}, exact {tensor.exact_value:.6g}"


def numbers(result: CheckResult) -> None:
    """Errors beside what is allowed, the ulp histogram, and every number as a table."""
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Errors and what is allowed", anchor="errors")
        plot(errors_figure(result, colors()), key="errors")
    out = result.tensor("O")
    with right:
        st.subheader("Units in the last place", anchor="ulps")
        if out and sum(out.ulps):
            plot(ulps_figure(out, colors()), key="ulps")
    rows = {
        "tensor": [tensor.name for tensor in result.tensors],
        "verdict": ["passes" if tensor.passes else "FAILS" for tensor in result.tensors],
        "largest error": [format_error(tensor.max_error) for tensor in result.tensors],
        "allowed": [format_error(tensor.tolerance) for tensor in result.tensors],
        "mean error": [format_error(tensor.mean_error) for tensor in result.tensors],
        "reference": [tensor.reference for tensor in result.tensors],
        "its largest": [format_error(tensor.naive_max_error) for tensor in result.tensors],
        "its mean": [format_error(tensor.naive_mean_error) for tensor in result.tensors],
        "ratio": [f"{tensor.ratio:.2f}" for tensor in result.tensors],
        "wrong NaN, ∞": [f"{tensor.wrong_nonfinite:,} of {tensor.elements:,}" for tensor in result.tensors],
        "worst at": [_where(tensor) for tensor in result.tensors],
    }
    st.dataframe(rows, hide_index=True, key="numbers")


# --- sensitivity, measurement, report -------------------------------------------------------------------------------


def sensitivity(
    store: runs.RunStore, backend: str, result: CheckResult, file: bytes, user: UserKernel | None
) -> Sensitivity | None:
    """How the error moves with tiles and scale. Asked for by itself where it is quick."""
    if not can_vary(result):
        return None
    st.subheader("Sensitivity", anchor="sensitivity")
    case, version = result.case, version_of(result.case, user)
    job = store.peek("check", case, "sensitivity" + version)
    if job is None:
        seconds = 8 * estimated_seconds(CheckCase(case.problem, case.kernel, False, 1), backend)
        if seconds > IMMEDIATE_S and not st.button(
            f"Vary tiles and scale (about {seconds:,.0f} s)", icon=":material/tune:"
        ):
            return None
        job = store.check(case, "sensitivity", file, version)
    if not job.done:
        _wait_for_sensitivity(job)
        return None
    found = _ended(store, job, finished_sensitivity, "again-sensitivity")
    if found is not None:
        _draw_sensitivity(found)
    return found


def _draw_sensitivity(found: Sensitivity) -> None:
    for note in found.notes:
        st.caption(f":material/info: {note}")
    left, right = st.columns(2, gap="large") if found.blocks else (None, st.container())
    if found.blocks:
        with left:
            st.caption(
                "**Tile sizes.** The same inputs with other tiles; the order of the sums changes, the result must not."
            )
            plot(blocks_figure(found.blocks, colors()), key="blocks")
            for point in found.blocks:
                if point.refused:
                    st.caption(f"{point.label}: {point.refused}")
    if found.scales:
        with right:
            st.caption(
                "**Scale of the input.** The query times powers of two, up to the first that its type cannot hold."
            )
            plot(scales_figure(found.scales, colors()), key="scales")


def beside_ours(store: runs.RunStore, backend: str, result: CheckResult, user: UserKernel | None) -> None:
    """Time and memory of the user's kernel beside ours and torch's, on the same tensors."""
    if result.case.kernel != USER or result.refused or result.broken or result.case.upload:
        return
    st.subheader("Time and memory beside ours", anchor="cost")
    if result.interpreted:
        st.caption(
            "Triton's interpreter ran your kernel: its time is no speed of a kernel. On a CUDA GPU it is timed here beside ours and torch's."
        )
        return
    problem = runs.measured_problem(result.case.problem, backend)
    peers = [USER, *(("ours", "sdpa_flash", "sdpa_cudnn") if backend == "cuda" else ("sdpa",)), "naive"]
    job = store.measure_beside(problem, tuple(peers), version_of(result.case, user))
    if not job.wait(0.1):
        _wait_for_sensitivity(job)
        return
    measurement = _ended(store, job, runs.finished_measurement, "again-cost")
    if measurement is not None:
        st.caption(
            f"**Measured** here on {measurement.device.name}, {problem.dtype}: median, peers in turn on the same tensors."
        )
        left, right = st.columns(2, gap="large")
        with left:
            plot(time_figure(measurement, colors()), key="time")
        with right:
            plot(memory_figure(measurement, colors()), key="memory")


def report(
    result: CheckResult, found: Sensitivity | None, user: UserKernel | None, file_name: str = ""
) -> None:
    """Downloads, and the command that repeats the check."""
    command = shell_command(result.case, user.argument if user else "", file_name)
    problem = result.case.problem
    name = f"check-{result.case.kernel}-{problem.q_len}x{problem.kv_len}-d{problem.head_dim}-{problem.dtype}-{problem.mask}"
    with st.container(horizontal=True):
        st.download_button(
            "Report as one HTML file", lambda: to_html(result, found, _style(), command), f"{name}.html", "text/html",
            icon=":material/lab_profile:", on_click="ignore", help="Opens anywhere, loads nothing.",
        )  # fmt: skip
        st.download_button(
            "Numbers as JSON", lambda: to_json([result], [found], command), f"{name}.json", "application/json",
            icon=":material/download:", on_click="ignore",
        )  # fmt: skip
    st.caption("The same from a shell, with the verdict as exit status:")
    st.code(command, language="bash", wrap_lines=True)


def _style() -> str:
    """The theme's colours for the report, light and dark."""

    def variables(palette: theme.Palette) -> str:
        names = ("background", "text", "line", "good", "bad", "flash", "standard")
        return "".join(f"--{name}: {getattr(palette, name)};" for name in names)

    return f":root {{ {variables(theme.LIGHT)} }} @media (prefers-color-scheme: dark) {{ :root {{ {variables(theme.DARK)} }} }}"
