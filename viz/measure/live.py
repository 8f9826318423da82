"""A sweep measured on this machine, one job per point.

The next point is queued when the last one has ended, so that other users do not wait for the whole sweep.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import streamlit as st

from kernels.measure.ceilings import Ceiling
from kernels.measure.document import Document
from kernels.measure.measurement import Measurement
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem
from kernels.worker.failures import FAILURES, Cancelled
from kernels.worker.job import Job
from kernels.worker.requests import MeasureRequest
from viz.measure.controls import Choice
from viz.measure.sources import HERE, Source
from viz.shared import runs
from viz.shared.formats import format_length, plain
from viz.shared.waiting import job_words

BUDGET_S = {"cuda": 0.2, "interpreter": 0.4}
"""Seconds of timed calls per peer and direction."""
CPU_DTYPE = "float32"
NO_DEVICE = {
    "starting": "The process that measures is still starting.",
    "replay": "Nothing can be measured here: the kernels do not run on this machine.",
}
"""Backends without a device, and why nothing can be measured there now."""


@dataclass
class LiveSweep:
    """A sweep of this session: the points still to measure, the one that runs, and what failed."""

    waiting: list[AttentionProblem]
    peers: tuple[str, ...]
    directions: tuple[str, ...]
    budget_s: float
    command: str
    """The shell command that repeats the sweep."""
    total: int
    running: Job[Measurement] | None = None
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
        """Queue the next point, or return the result of the one that has ended."""
        if self.running is None:
            if self.waiting:
                problem = self.waiting.pop(0)
                request = self._request(problem)
                if (earlier := store.peek(request)) is not None and earlier.done:
                    store.forget(earlier)  # so that it is measured anew
                self.running = store.job(request)
            return None
        if not self.running.done:
            return None
        job, self.running = self.running, None
        store.forget(job)  # so that the same point is measured again if it is asked for again
        try:
            return job.result()
        except Cancelled:
            self.cancel()
        except FAILURES as error:
            assert isinstance(job.request, MeasureRequest)
            problem = job.request.problem
            shape = (
                f"length {format_length(problem.q_len)}, head_dim {problem.head_dim}, batch {problem.batch}"
            )
            self.failures.append(f"{shape}: {error}")
        return None

    def _request(self, problem: AttentionProblem) -> MeasureRequest:
        return MeasureRequest(problem, self.directions, self.peers, self.budget_s)

    def cancel(self) -> None:
        """Keep what has been measured and stop the rest."""
        self.waiting.clear()
        self.cancelled = True
        if self.running is not None:
            self.running.cancel()
            self.running = None


def available_peers(peers: tuple[str, ...], backend: str) -> tuple[str, ...]:
    """The chosen peers that this device has."""
    return tuple(name for name in peers if PEERS[name].runs_on(backend))


def _missing_words(peers: tuple[str, ...], backend: str) -> str:
    """How the chosen peers that this device could run are installed, if they are not."""
    missing = [PEERS[name] for name in peers if backend in PEERS[name].backends]
    missing = [peer for peer in missing if not peer.is_installed]
    return "".join(f" {peer.label} is not installed: `pip install --pre {peer.package}`." for peer in missing)


def start_button(store: runs.RunStore | None, backend: str, choice: Choice) -> None:
    """The button that measures the chosen points here; its tooltip says why if it cannot."""
    device = store.client.device if store else None
    if device is None or backend in NO_DEVICE:
        reason = NO_DEVICE.get(backend, NO_DEVICE["starting"])
        st.button("Measure here", icon=":material/speed:", disabled=True, width="stretch", help=reason)
        return
    peers = available_peers(choice.peers, backend)
    labels = ", ".join(PEERS[name].label for name in peers) or "none of the chosen peers runs here"
    points = f"{len(choice.points)} {'point' if len(choice.points) == 1 else 'points'}"
    sweep = st.session_state.get("sweep")
    st.button(
        "Measure here",
        icon=":material/speed:",
        type="primary",
        disabled=not peers or (sweep is not None and sweep.active),
        width="stretch",
        help=f"{points} on {device.name}: {labels}.{_missing_words(choice.peers, backend)}",
        on_click=start,
        args=(choice, backend),
    )


def live_panel(store: runs.RunStore | None) -> None:
    """Progress of a running sweep; afterwards what failed."""
    sweep = st.session_state.get("sweep")
    if sweep is None or store is None:
        return
    if sweep.active:
        sweep_progress(store)
    elif sweep.cancelled:
        st.info("Cancelled. The points measured before stay.", icon=":material/stop_circle:")
    for failure in sweep.failures:
        st.warning(plain(failure), icon=":material/error:")


def start(choice: Choice, backend: str) -> None:
    """Begin a sweep over the chosen points; `sweep_progress` carries it on."""
    problems, budget_s = choice.problems(dtype_here(backend, choice)), BUDGET_S[backend]
    peers = available_peers(choice.peers, backend)
    command = command_for(problems, peers, choice.directions, budget_s)
    sweep = LiveSweep(problems, peers, choice.directions, budget_s, command, len(problems))
    st.session_state["sweep"] = sweep


def dtype_here(backend: str, choice: Choice) -> str:
    """The type of a measurement here."""
    return choice.view.dtype if backend == "cuda" else CPU_DTYPE


def command_for(
    problems: list[AttentionProblem], peers: tuple[str, ...], directions: tuple[str, ...], budget_s: float
) -> str:
    """The shell command that measures the same again."""
    first = problems[0]

    def values(name: str) -> str:
        return ",".join(dict.fromkeys(str(getattr(problem, name)) for problem in problems))

    options = {"length": values("q_len"), "head-dim": values("head_dim")}
    options |= {"mask": first.mask, "dtype": first.dtype}
    batches = {problem.batch for problem in problems}
    tokens = {problem.batch * problem.q_len for problem in problems}
    if len(tokens) == 1 and len(batches) > 1:
        options["tokens"] = str(first.batch * first.q_len)
    else:
        options["batch"] = values("batch")
    if len({problem.q_heads for problem in problems}) > 1:
        options["width"] = str(first.q_heads * first.head_dim)
    else:
        options["q-heads"] = str(first.q_heads)
    options |= {"peers": ",".join(peers), "directions": ",".join(directions), "budget": f"{budget_s:g}"}
    return " ".join(["python -m kernels.measure", *(f"--{name} {value}" for name, value in options.items())])


def live_document() -> Document:
    """What this session has measured so far."""
    return st.session_state.setdefault("live", Document())


def live_source(backend: str) -> Source:
    """What this session has measured so far, as an origin of numbers."""
    return Source(HERE, live_document(), CPU_DTYPE if backend != "cuda" else None)


def keep(measurement: Measurement, command: str) -> None:
    """Add a point to this session's measurements, and its command if it is new."""
    document = live_document()
    commands = [*(document.command.split(" && ") if document.command else []), command]
    st.session_state["live"] = replace(
        document,
        measurements=(*document.measurements, measurement),
        command=" && ".join(dict.fromkeys(commands)),
    )


def keep_ceilings(ceilings: tuple[Ceiling, ...]) -> None:
    """Take ceilings into this session's measurements."""
    st.session_state["live"] = replace(live_document(), ceilings=ceilings)


@st.fragment(run_every=0.4)
def sweep_progress(store: runs.RunStore) -> None:
    """Carry the sweep on, show its progress, and redraw the page after each point."""
    sweep: LiveSweep = st.session_state["sweep"]
    measurement = sweep.advance(store)
    if measurement is not None:
        keep(measurement, sweep.command)
    if measurement is not None or not sweep.active:
        st.rerun()
    bar, button = st.columns([5, 1], vertical_alignment="center")
    bar.progress(sweep.done / sweep.total, text=_progress_words(sweep))
    button.button(
        "Cancel", icon=":material/stop:", key="cancel-sweep", width="stretch", on_click=sweep.cancel
    )


def _progress_words(sweep: LiveSweep) -> str:
    words = f"point {sweep.done + 1} of {sweep.total}"
    return words if sweep.running is None else f"{words}: {job_words(sweep.running)}"
