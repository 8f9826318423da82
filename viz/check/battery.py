"""The battery on the Check page: many cases one after the other, failures first. Each row opens its case."""

from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st

from kernels.check.case import battery, cases, fit
from kernels.check.report import report
from kernels.check.report.machine import to_json
from kernels.check.requests import CheckRequest, checked_result
from kernels.check.result import CheckResult
from kernels.check.subject.user_kernel import UserKernel
from kernels.worker.client import Job
from viz.check.verdict import MARKS
from viz.shared.formats import plain
from viz.shared.fragment import fragment
from viz.shared.layout import download
from viz.shared.runs import RunStore

STATE = "battery_run"
POLL_S = 0.5
AT_ONCE = 2
"""At most so many cases wait or run at a time.

The worker then has no pause between them, and other sessions do not wait for a whole battery.
"""


@dataclass(frozen=True)
class CheckContext:
    """The worker's store, the backend ("cuda" or "interpreter"), and what the user brought along."""

    store: RunStore
    backend: str
    users: tuple[UserKernel, ...]
    """The kernels that the command line named."""

    def checks(self, *small: cases.CheckCase) -> tuple[CheckRequest, ...]:
        """The requests for the verdicts of cases, with each kernel's version as it is now."""
        versions = {name: self.version(name) for name in {case.kernel for case in small}}
        return tuple(CheckRequest(case, versions[case.kernel]) for case in small)

    def user(self, kernel: str) -> UserKernel | None:
        """The user's kernel of that name; None for other kernels."""
        return dict(zip(cases.USERS, self.users, strict=False)).get(kernel)

    def version(self, kernel: str) -> str:
        """Tells results of the user's kernel apart after its file was saved again; "" for other kernels."""
        user = self.user(kernel)
        return user.version if user else ""

    def result(self, job: Job[CheckResult], case: cases.CheckCase) -> CheckResult:
        """What a check that has ended says, also of a kernel that crashed or hung."""
        user = self.user(case.kernel)
        return checked_result(job, case, user.name if user else "", self.store.client.device)


def battery_panel(context: CheckContext, base: cases.CheckCase) -> None:
    """The battery of small cases: for the chosen kernel; for all of the user's if it is one of them.

    Kernels of the user's are checked without being asked for.
    """
    own = cases.USERS[: len(context.users)]
    small: list[cases.CheckCase] = []
    for name in own if base.kernel in own else (base.kernel,):
        limits = user.limits if (user := context.user(name)) else None
        case = replace(base, kernel=name, repeats=2)
        small += battery.battery(case, base.problem.seed, limits, context.backend)
    requests = context.checks(*small)
    run: BatteryRun | None = st.session_state.get(STATE)
    if run is not None and run.asked != requests:  # other cases, or another version of the file
        run.stop(context)
        run = st.session_state[STATE] = None
    if run is None and base.kernel in own:
        run = st.session_state[STATE] = BatteryRun(requests)
    st.button(
        f"Run {len(requests)} cases",
        type="primary",
        icon=":material/play_arrow:",
        disabled=run is not None and run.running,
        on_click=_start,
        args=(context, requests),
    )
    if run is None:
        seconds = sum(cases.estimated_seconds(case, context.backend) for case in small)
        drawn = f"Small cases, drawn by seed {base.problem.seed}"
        st.caption(f"{drawn}, each with something that kernels get wrong: about {seconds:,.0f} s here.")
    elif run.running:
        _running(context, run)
    else:
        _ended(context, run)


def _start(context: CheckContext, requests: tuple[CheckRequest, ...]) -> None:
    """Check the cases, again if they were checked before."""
    for job in earlier.jobs if (earlier := st.session_state.get(STATE)) else ():
        context.store.forget(job)
    st.session_state[STATE] = BatteryRun(requests)


@fragment(run_every=POLL_S)
def _running(context: CheckContext, run: "BatteryRun") -> None:
    """Hands out the next cases, with what has ended below the bar."""
    run.advance(context)
    if not run.running:
        st.rerun()
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    now = next((job for job in run.jobs if not job.done), None)
    waits = f", {now.jobs_ahead} jobs of others ahead" if now and now.jobs_ahead else ""
    count = len(run.requests)
    left.progress(run.done / count, text=f"{run.done} of {count} cases checked{waits}")
    right.button("Cancel", icon=":material/stop:", key="cancel-battery", on_click=run.stop, args=(context,))
    _table(run.results(context), key="so-far")


def _ended(context: CheckContext, run: "BatteryRun") -> None:
    results = run.results(context)
    if run.stopped:
        st.markdown(f"Stopped after {len(results)} of {len(run.requests)} cases.")
    if not results:
        return
    of_kernels = report.by_kernel(results)
    for found in of_kernels:
        verdict = report.overall(found)
        words = f":{MARKS[verdict][0]}[**{report.VERDICT_WORDS[verdict]}**] **{plain(found[0].label)}**"
        st.markdown(f"{words}: {plain(report.summary(found))}.")
        for words in report.causes(found):
            st.markdown(f":material/troubleshoot: {plain(words[0].upper() + words[1:])}.")
    if len(of_kernels) > 1:
        st.caption("Side by side: the verdict, and the largest error over what is allowed.")
        st.dataframe(report.side_by_side(of_kernels), hide_index=True, key="side-by-side")
    _table(results, key="battery-table", on_select=lambda: _open(results), selection_mode="single-row")
    st.caption("Select a row to open its case.")
    download("All numbers as JSON", lambda: to_json(results), "check-battery.json")


def _table(results: list[CheckResult], **options: Any) -> None:
    help_words = "the largest of all tensors; above 1 fails"
    share = st.column_config.NumberColumn(report.SHARE, format="%.2f", help=help_words)
    if rows := [report.case_row(result) for result in results]:
        st.dataframe(rows, hide_index=True, column_config={report.SHARE: share}, height="auto", **options)


def _open(results: list[CheckResult]) -> None:
    """Put the case of the selected row into the widgets, and with them into the URL."""
    rows = st.session_state["battery-table"].selection.rows
    if rows and rows[0] < len(results):
        case = results[rows[0]].case
        for name, value in case.problem.as_dict().items():
            st.session_state[name] = value
        for name in ("kernel", "layout", "scale"):
            st.session_state[name] = getattr(case, name)
        st.session_state["view"] = "case"


@dataclass
class BatteryRun:
    """One battery of a session: what is asked, and the jobs so far. Results stay if it is stopped."""

    asked: tuple[CheckRequest, ...]
    requests: list[CheckRequest] = field(init=False)
    """What was asked, or is tried in the place of what a kernel refuses, as `fit` chooses it."""
    jobs: list[Job[CheckResult]] = field(default_factory=list)
    """Of the first of these requests."""
    stopped: bool = False
    rounds: int = 0
    """How often refused cases were fitted."""

    def __post_init__(self) -> None:
        self.requests = list(self.asked)

    @property
    def done(self) -> int:
        """Cases that have ended."""
        return sum(job.done for job in self.jobs)

    @property
    def running(self) -> bool:
        """Whether a case is under way or still to come."""
        if self.stopped:
            return self.done < len(self.jobs)
        return self.done < len(self.requests) or self.rounds < fit.ROUNDS

    def advance(self, context: CheckContext) -> None:
        """Hand the worker the next cases, at most AT_ONCE at a time."""
        if self.stopped:
            return
        if self.done == len(self.requests):
            self._fit(context)
        room = AT_ONCE - len(self.jobs) + self.done
        self.jobs += [context.store.job(next_one) for next_one in self.requests[len(self.jobs) :][:room]]

    def _fit(self, context: CheckContext) -> None:
        """Put fitted cases in the place of refused ones, once more."""
        self.rounds += 1
        instead = fit.second_tries(self._ended(context))
        if not instead:
            self.rounds = fit.ROUNDS
        kept = [place for place in range(len(self.requests)) if place not in instead]
        self.requests = [*(self.requests[place] for place in kept), *context.checks(*instead.values())]
        self.jobs = [self.jobs[place] for place in kept]

    def stop(self, context: CheckContext) -> None:
        """Start no further case, and cut short those under way. The next to ask for these gets a verdict."""
        self.stopped = True
        for job in self.jobs:
            if not job.done:
                job.cancel()
                context.store.forget(job)

    def _ended(self, context: CheckContext) -> list[CheckResult]:
        ended = zip(self.requests, self.jobs, strict=False)
        return [context.result(job, request.case) for request, job in ended if job.done]

    def results(self, context: CheckContext) -> list[CheckResult]:
        """Of the cases that have ended, the worst first."""
        results = self._ended(context)
        return sorted(results, key=lambda each: (report.ORDER.index(each.verdict), -each.worst_share))
