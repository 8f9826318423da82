"""A sweep measured on this machine: one job a point, the next one queued when the last has ended, so that nobody else waits for all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st

from kernels.measure.ceilings import Ceiling
from kernels.measure.document import Document
from kernels.measure.measurement import Measurement
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.worker.client import Cancelled, Job, JobFailure
from viz.measure.controls import Choice
from viz.measure.sources import HERE, Source, plain
from viz.shared import runs, theme

BUDGET_S = {"cuda": 0.2, "interpreter": 0.4}
"""Seconds of timed calls a peer and direction."""
CPU_DTYPE = "float32"


@dataclass
class LiveSweep:
    """Points still to measure, and what the last one said."""

    waiting: list[AttentionProblem]
    peers: tuple[str, ...]
    directions: tuple[str, ...]
    budget_s: float
    command: str
    total: int
    running: Job | None = None
    failures: list[str] = field(default_factory=list)
    cancelled: bool = False

    @property
    def active(self) -> bool:
        """Whether a point runs or waits."""
        return self.running is not None or bool(self.waiting)

    @property
    def done(self) -> int:
        """Points that have ended."""
        return self.total - len(self.waiting) - (self.running is not None)

    def advance(self, store: runs.RunStore) -> Measurement | None:
        """Queue the next point, or take the result of the one that has ended."""
        if self.running is None:
            if self.waiting:
                self.running = store.measure_point(
                    self.waiting.pop(0), self.peers, self.directions, self.budget_s
                )
            return None
        if not self.running.done:
            return None
        job, self.running = self.running, None
        store.forget(job)  # the same point asked for again is measured again
        try:
            return runs.finished_measurement(job)
        except Cancelled:
            self.cancel()
        except (InvalidProblem, JobFailure) as error:
            length = job.request["problem"]["q_len"]
            self.failures.append(f"length {theme.format_length(length)}: {error}")
        return None

    def cancel(self) -> None:
        """Keep what has been measured and stop the rest."""
        self.waiting.clear()
        self.cancelled = True
        if self.running is not None:
            self.running.cancel()
            self.running = None


def available_peers(peers: tuple[str, ...], backend: str) -> tuple[str, ...]:
    """Those of the chosen peers that this device has."""
    return tuple(name for name in peers if backend in PEERS[name].backends)


def start_button(store: runs.RunStore | None, backend: str, choice: Choice) -> None:
    """The button that measures the chosen points here; says why where it cannot."""
    if backend in ("replay", "starting"):
        st.button(
            "Measure here",
            icon=":material/speed:",
            disabled=True,
            width="stretch",
            help=f"No device to measure on: {backend}.",
        )
        return
    peers = available_peers(choice.peers, backend)
    sweep = st.session_state.get("sweep")
    busy = sweep is not None and sweep.active
    names = ", ".join(PEERS[name].label for name in peers)
    count = len(choice.points)
    help_words = f"{count} {'point' if count == 1 else 'points'} on {store.client.device.name}: {names or 'none of the chosen peers runs here'}."
    if st.button(
        "Measure here",
        icon=":material/speed:",
        type="primary",
        disabled=busy or not peers,
        width="stretch",
        help=help_words,
    ):
        start(choice, backend)
        st.rerun()


def live_panel(store: runs.RunStore | None) -> None:
    """Progress of a running sweep; afterwards what went wrong, if anything did."""
    sweep = st.session_state.get("sweep")
    if sweep is None or store is None:
        return
    if sweep.active:
        sweep_progress(store)
    elif sweep.cancelled:
        st.info("Cancelled. What had been measured stays.", icon=":material/stop_circle:")
    for failure in sweep.failures:
        st.warning(plain(failure), icon=":material/error:")


def start(choice: Choice, backend: str) -> None:
    """Begin a sweep over the chosen points; the page's fragment carries it on."""
    dtype = choice.view.dtype if backend == "cuda" else CPU_DTYPE
    problems = choice.problems(dtype)
    peers = available_peers(choice.peers, backend)
    command = command_for(problems, peers, choice.directions, BUDGET_S[backend])
    st.session_state["sweep"] = LiveSweep(
        problems, peers, choice.directions, BUDGET_S[backend], command, len(problems)
    )


def command_for(
    problems: list[AttentionProblem], peers: tuple[str, ...], directions: tuple[str, ...], budget_s: float
) -> str:
    """The shell command that measures the same again."""
    first = problems[0]

    def values(name: str) -> str:
        return ",".join(dict.fromkeys(str(getattr(problem, name)) for problem in problems))

    parts = [
        f"--length {values('q_len')}",
        f"--head-dim {values('head_dim')}",
        f"--mask {first.mask}",
        f"--dtype {first.dtype}",
    ]
    if (
        len({problem.batch * problem.q_len for problem in problems}) == 1
        and len({problem.batch for problem in problems}) > 1
    ):
        parts.append(f"--tokens {first.batch * first.q_len}")
    else:
        parts.append(f"--batch {values('batch')}")
    if len({problem.q_heads for problem in problems}) > 1:
        parts.append(f"--width {first.q_heads * first.head_dim}")
    else:
        parts.append(f"--q-heads {first.q_heads}")
    parts += [f"--peers {','.join(peers)}", f"--directions {','.join(directions)}", f"--budget {budget_s:g}"]
    return f"python -m kernels.measure {' '.join(parts)}"


def live_source(backend: str) -> Source:
    """What this session has measured so far."""
    return Source(
        HERE, st.session_state.setdefault("live", Document()), CPU_DTYPE if backend != "cuda" else None
    )


def keep(measurement: Measurement, command: str) -> None:
    """Add a point to this session's measurements."""
    document = st.session_state.setdefault("live", Document())
    commands = [*(document.command.split(" && ") if document.command else []), command]
    st.session_state["live"] = document.with_(
        measurements=(*document.measurements, measurement), command=" && ".join(dict.fromkeys(commands))
    )  # fmt: skip


def keep_ceilings(job: Job) -> None:
    """Take the ceilings of a job that has ended into this session's measurements. Raises what the job raises."""
    document = st.session_state.setdefault("live", Document())
    st.session_state["live"] = document.with_(
        ceilings=tuple(Ceiling.from_dict(values) for values in job.result(0)[0]["ceilings"])
    )


@st.fragment(run_every=0.4)
def sweep_progress(store: runs.RunStore) -> None:
    """Carries the sweep on, shows how far it is, and redraws the page after each point."""
    sweep: LiveSweep = st.session_state["sweep"]
    measurement = sweep.advance(store)
    if measurement is not None:
        keep(measurement, sweep.command)
    if measurement is not None or not sweep.active:
        st.rerun()
    words = f"point {sweep.done + 1} of {sweep.total}"
    if sweep.running is not None:
        ahead = sweep.running.jobs_ahead
        words += (
            f": {ahead} {'job' if ahead == 1 else 'jobs'} ahead in the queue"
            if ahead
            else f": {sweep.running.label}"
        )
    bar, button = st.columns([5, 1], vertical_alignment="center")
    bar.progress(sweep.done / sweep.total, text=words)
    if button.button("Cancel", icon=":material/stop:", key="cancel-sweep", width="stretch"):
        sweep.cancel()
        st.rerun()
