"""Which run Explore shows, why, and what else the reader can do. Pure: no streamlit."""

import functools
from dataclasses import dataclass
from typing import Literal

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.device.backend import DeviceInfo
from kernels.problem.presets import PRESETS, Preset
from kernels.recordings import recorded_problems
from kernels.trace.sample import choose_sample, sampled_steps
from kernels.worker.requests import TraceRequest
from viz.player.drawn import is_large
from viz.shared import runs
from viz.shared.run_request import RunRequest

LONG_S = 3.0
"""A run that is estimated to take longer is sampled, if its algorithm can be."""
WHOLE_S = 100.0
"""A whole run that is estimated to take longer is not offered: the worker's time limit would end it."""

Extent = Literal["", "here", "whole"]
"""What the reader has asked for by a button: a run here in place of a recording, or the whole run."""
Case = Literal["refused", "not recorded", "recorded", "replayed", "starting", "run"]
"""What is shown: nothing, as no machine takes the problem, or as it cannot run here and was not recorded; a
recording, or one of a run that this machine cannot make; a stand-in while the worker starts; a run made here.
"""


@dataclass(frozen=True)
class Machine:
    backend: str
    """As `viz.shared.runs.backend` names it."""
    device: DeviceInfo | None = None
    """None as long as the worker has not named it, and without a worker."""
    store: runs.RunStore | None = None


@dataclass(frozen=True)
class RunChoice:
    request: RunRequest
    case: Case
    words: str = ""
    """What the page says of it; "" for nothing."""
    recording: runs.Run | None = None
    """Shown if it is "recorded" or "replayed"."""
    trace: TraceRequest | None = None
    """Asked of the worker if it is "run": of the whole run, or of a sample."""
    seconds: float = 0.0
    """Rough time of `trace`; 0 if the reader has asked for it already."""
    offer: Extent = ""
    offer_words: str = ""

    @property
    def links(self) -> list[Preset]:
        """Recorded runs of the algorithm, which every machine can show, if this run cannot be shown."""
        entry = ALGORITHMS[self.request.algorithm]
        if self.case not in ("refused", "not recorded"):
            return []
        recorded = recorded_problems(entry.name)
        return [each for each in PRESETS.values() if entry.with_own_tiles(each.problem) in recorded]


def choose(request: RunRequest, machine: Machine, asked: Extent = "") -> RunChoice:
    entry, recording, device = ALGORITHMS[request.algorithm], runs.recorded(*request), machine.device
    known = device is not None or not entry.needs  # the worker will say soon whether it can run
    lacks = device is not None and entry.missing(device.compute_capability) is not None
    if not lacks and (refused := entry.refusal(request.problem)):
        return RunChoice(request, "refused", str(refused))
    if machine.backend == "replay" or lacks:
        needs = f"{entry.label} needs {entry.needs.gpu_words}; {_here(machine)}" if entry.needs else ""
        if recording is None:
            none = f"Kernels cannot run here, and there is no recording of {entry.label} for this problem."
            return RunChoice(request, "not recorded", needs or none)
        if machine.backend == "replay":
            return RunChoice(request, "recorded", recording=recording)
        words = f"**Replayed** from {recording.trace.device.name}: {needs}"
        return RunChoice(request, "replayed", words, recording)
    if recording is not None and not (asked and known):
        words = f"Runs the kernel on the device at hand. Now: {recording.provenance}."
        offer: Extent = "here" if known else ""
        return RunChoice(request, "recorded", recording=recording, offer=offer, offer_words=words)
    return _run(request, machine, asked) if known else RunChoice(request, "starting")


def _run(request: RunRequest, machine: Machine, asked: Extent) -> RunChoice:
    """A run here: sampled if it is long, or asked for once the worker has said what it runs on."""
    problem, entry = request.problem, ALGORITHMS[request.algorithm]
    estimated = functools.partial(runs.estimated_seconds, problem, entry, machine.backend)
    whole_s = estimated()
    is_long = whole_s > LONG_S or is_large(problem)
    if machine.backend == "starting" and is_long:
        return RunChoice(request, "starting")
    if asked == "whole":
        return RunChoice(request, "run", trace=TraceRequest(*request))
    sample = choose_sample(problem, entry, estimated) if is_long else None
    trace = TraceRequest(*request, sample)
    if sample is None:
        return RunChoice(request, "run", trace=trace, seconds=whole_s)
    return RunChoice(
        request,
        "run",
        f"**Sample**: {sample.words(problem)} are traced. The whole run takes about {duration(whole_s)} "
        "here; its bytes are modelled, and held against what the sample counted.",
        trace=trace,
        seconds=estimated(sampled_steps(problem, entry, sample)),
        offer="whole" if whole_s < WHOLE_S else "",
        offer_words=f"Takes about {duration(whole_s)} here, in place of a sample.",
    )


def _here(machine: Machine) -> str:
    device = machine.device
    if device is None or machine.backend == "replay":
        return "no kernel can run here."
    if device.backend == "cuda":
        return f"this GPU, {device.name}, has {device.compute_capability}."
    return "here kernels run in Triton's interpreter."


def duration(seconds: float) -> str:
    """Rough time in words: "42 s", "5 min", "1.7 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def stand_in(algorithm: str) -> runs.Run | None:
    """A recording of the algorithm, or else of another one."""
    found = [(problem, name) for name in (algorithm, *ALGORITHMS) for problem in recorded_problems(name)]
    return runs.recorded(*found[0]) if found else None


def run_presets(machine: Machine) -> None:
    """Run each preset here, as `choose` asks for it, so that its kernels are compiled before a reader does.

    One after the other: what a reader asks for waits for one of them at most.
    """
    for preset in PRESETS.values():
        choice = choose(RunRequest(preset.problem, preset.algorithm or FIRST), machine, "here")
        if machine.store and choice.trace:
            machine.store.job(choice.trace).wait()
