"""A sweep measured on this machine, one job per point.

The next point is queued when the last one has ended, so that other users do not wait for the whole sweep.
"""

from dataclasses import dataclass, field

import streamlit as st

from kernels.measure.document import Document
from kernels.measure.measurement import Measurement, shape_words
from kernels.measure.peers import PEERS
from kernels.worker.client import Job, WorkerClient
from kernels.worker.failures import FAILURES
from kernels.worker.requests import MeasureRequest
from viz.measure.controls import Choice
from viz.measure.sources import HERE, Source, merged
from viz.shared import runs
from viz.shared.formats import format_count, plain
from viz.shared.fragment import fragment
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

    client: WorkerClient
    requests: tuple[MeasureRequest, ...]
    command: str
    ended: int = 0
    running: Job[Measurement] | None = None
    failures: list[str] = field(default_factory=list)
    cancelled: bool = False

    @property
    def active(self) -> bool:
        return not self.cancelled and self.ended < len(self.requests)

    def advance(self) -> Measurement | None:
        """Queue the next point, or return the result of the one that has ended."""
        if not self.active:
            return None
        request = self.requests[self.ended]
        job = self.running = self.running or self.client.submit(request)
        if not job.done:
            return None
        self.running, self.ended = None, self.ended + 1
        try:
            return job.result()
        except FAILURES as error:
            self.failures.append(f"{shape_words(request.problem)}: {error}")
        return None

    def cancel(self) -> None:
        self.cancelled = True
        if self.running is not None:
            self.running.cancel()


def start_button(choice: Choice) -> None:
    """The button that measures the chosen points here; its tooltip says why if it cannot."""
    store, sweep = runs.run_store(), st.session_state.get("sweep")
    device, backend = store.client.device if store else None, runs.backend(store)
    here = [name for name in choice.peers if backend in PEERS[name].backends]
    peers = tuple(name for name in here if PEERS[name].is_installed)
    words = NO_DEVICE.get(backend, "")
    if device and not words:
        labels = ", ".join(PEERS[name].label for name in peers) or "none of the chosen peers runs here"
        words = f"{format_count(len(choice.points), 'point')} on {device.name}: {labels}."
        for peer in (PEERS[name] for name in here if name not in peers):
            words += f" {peer.label} is not installed: `pip install --pre {peer.package}`."
    st.button(
        "Measure here",
        icon=":material/speed:",
        type="primary",
        disabled=device is None or not peers or (sweep is not None and sweep.active),
        width="stretch",
        help=words,
        on_click=_start,
        args=(store, choice, peers, backend),
    )


def _start(store: runs.RunStore, choice: Choice, peers: tuple[str, ...], backend: str) -> None:
    dtype, budget_s = dtype_here(backend, choice), BUDGET_S[backend]
    problems = choice.problems(dtype)
    energy = st.session_state.get("chart") == "energy"
    requests = tuple(MeasureRequest(each, choice.directions, peers, budget_s, energy) for each in problems)
    command = command_for(choice, dtype, peers, budget_s) + (" --energy" if energy else "")
    st.session_state["sweep"] = LiveSweep(store.client, requests, command)


def dtype_here(backend: str, choice: Choice) -> str:
    return choice.view.dtype if backend == "cuda" else CPU_DTYPE


def command_for(choice: Choice, dtype: str, peers: tuple[str, ...], budget_s: float) -> str:
    view = choice.view
    load = {"tokens": view.tokens, "width": view.width} if view.tokens else {}
    options = {
        "length": view.length,
        "head-dim": view.head_dim,
        "mask": view.mask,
        "dtype": dtype,
        **(load or {"batch": view.batch, "q-heads": view.q_heads}),
        **({"kv-heads": view.kv_heads} if view.kv_heads else {}),
        view.axis.replace("_", "-"): ",".join(map(str, choice.points)),
        "peers": ",".join(peers),
        "directions": ",".join(choice.directions),
        "budget": f"{budget_s:g}",
    }
    return " ".join(["python -m kernels.measure", *(f"--{name} {value}" for name, value in options.items())])


def live_source() -> Source:
    document = st.session_state.setdefault("live", Document())
    return Source(HERE, document, CPU_DTYPE if runs.backend(runs.run_store()) != "cuda" else None)


def live_panel() -> None:
    """Progress of a running sweep; afterwards what failed."""
    sweep = st.session_state.get("sweep")
    if sweep is None:
        return
    if sweep.active:
        sweep_progress(sweep)
    elif sweep.cancelled:
        st.info("Cancelled. The points measured before stay.", icon=":material/stop_circle:")
    for failure in sweep.failures:
        st.warning(plain(failure), icon=":material/error:")


@fragment(run_every=0.4)
def sweep_progress(sweep: LiveSweep) -> None:
    """Carry the sweep on, show its progress, and redraw the page after each point."""
    measurement = sweep.advance()
    if measurement is not None:
        found = Document(sweep.command, (measurement,))
        st.session_state["live"] = merged([st.session_state["live"], found])
    if measurement is not None or not sweep.active:
        st.rerun()
    now = f": {job_words(sweep.running)}" if sweep.running else ""
    ended, total = sweep.ended, len(sweep.requests)
    bar, button = st.columns([5, 1], vertical_alignment="center")
    bar.progress(ended / total, text=f"point {ended + 1} of {total}{now}")
    icon = ":material/stop:"
    button.button("Cancel", icon=icon, key="cancel-sweep", width="stretch", on_click=sweep.cancel)
