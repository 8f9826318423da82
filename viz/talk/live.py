"""A scene with the problem that the speaker has picked ("What if?"), run here while the talk goes on.

The stage asks, and asks again until the run is no longer under way; meanwhile it shows what it showed before.
Nothing here waits longer than WAIT_S for a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernels.algorithms import ALGORITHMS
from kernels.problem import InvalidProblem
from kernels.trace import Trace
from kernels.worker.failures import FAILURES
from kernels.worker.requests import TraceRequest
from viz.player.scene import InvalidTalk, RunName, Scene, Stop, Talk
from viz.player.scene_figures import UnknownFigure, filled
from viz.player.talk import Runs, run_names, scene_figures, talk_data
from viz.player.what_if import changed
from viz.shared import runs
from viz.shared.waiting import job_words
from viz.talk.shipped import measured, recorded_runs

WAIT_S = 0.3
LONGEST_S = 20.0
"""A run that is estimated to take longer is not begun: the audience waits."""
PLAIN = "{steps} tile steps, {bytes} moved."
"""Stands in for a sentence with a number that a run here does not have, such as a recorded time."""
STEPS = re.compile(r"(\d+)(\.\d+)?")


def answer(talk: Talk, asked: Mapping, store: runs.RunStore | None) -> dict:
    """What the stage is told about a question {id, scene, picks}, which comes from a browser.

    With its id: "waits" and what the job does now, "failed" and why, or "shown", the scene as `talk_data` has
    it with the runs and duels of its own.
    """
    said = {"id": asked.get("id")}
    try:
        scene = _picked(talk, asked)
        before = talk.scenes[asked["scene"]]
        found = _runs_of(scene, store)
        old = _runs_of(before, store)
        if isinstance(found, str) or isinstance(old, str):
            return said | {"waits": found if isinstance(found, str) else old}
        assert before.run  # a chart has no choices
        return said | {"shown": _shown(scene, found, old[before.run][0])}
    except (InvalidProblem, InvalidTalk, *FAILURES) as error:
        return said | {"failed": str(error)}


def _picked(talk: Talk, asked: Mapping) -> Scene:
    """The scene with the picked problem, for both runs of a comparison."""
    index, picks = asked.get("scene"), asked.get("picks")
    if type(index) is not int or not 0 <= index < len(talk.scenes) or not isinstance(picks, dict):
        accepted = f"expected a scene from 0 to {len(talk.scenes) - 1}, and picks"
        raise InvalidProblem("live", str(index), accepted)
    scene = talk.scenes[index]
    if scene.run is None:
        raise InvalidProblem("live", str(index), "this scene shows a chart, and no run that could change")
    run, versus = (
        RunName(changed(name.problem, scene.live, picks), name.algorithm) if name else None
        for name in (scene.run, scene.versus)
    )
    assert run
    return replace(scene, run=run, versus=versus)


def _runs_of(scene: Scene, store: runs.RunStore | None) -> Runs | str:
    """The runs of a scene, recorded or made here; words while they are under way. Raises a job's failure."""
    alone = Talk("", 1.0, (scene,))
    found = recorded_runs(alone)
    for name in run_names(alone):
        if name in found:
            continue
        backend = runs.backend(store)
        if store is None or backend == "replay":
            raise InvalidTalk("This was not recorded, and nothing can run here.")
        algorithm = ALGORITHMS[name.algorithm]
        seconds = runs.estimated_seconds(
            name.problem, algorithm, "interpreter" if backend == "starting" else backend
        )
        if seconds > LONGEST_S:
            raise InvalidTalk(f"{algorithm.label} would take about {seconds:,.0f} s here.")
        job = store.job(TraceRequest(name.problem, name.algorithm))
        if not job.wait(WAIT_S):
            return job_words(job)
        try:
            run = runs.live_run(job.result())
        except FAILURES:
            store.forget(job)  # the next question starts it anew
            raise
        found[name] = run.trace, run.provenance
    return found


def _shown(scene: Scene, found: Runs, old: Trace) -> dict:
    """The scene as the stage shows it, with stops and words of its own runs; `old` is the run that it had."""
    figures = scene_figures(scene, found, measured)
    assert scene.run
    new = found[scene.run][0]
    stops = tuple(
        Stop(moved_stop(stop.step, old, new), _sayable(stop.sentence, figures)) for stop in scene.stops
    )
    title, sentence = _sayable(scene.title, figures), _sayable(scene.sentence, figures)
    scene = replace(scene, title=title, sentence=sentence, stops=stops, notes="")
    data = talk_data(Talk("", 1.0, (scene,)), found, measured)
    return data["scenes"][0] | {"own": {"runs": data["runs"], "duels": data["duels"]}}


def _sayable(words: str, figures: dict[str, str]) -> str:
    try:
        filled(words, figures)
    except UnknownFigure:
        return PLAIN
    return words


def moved_stop(step: str, old: Trace, new: Trace) -> str:
    """A stop of one run, at the same part of the same kernel of another: "68.2" of 136 steps is "18.2" of 36.

    Moments of all programs at once, and places of a comparison, stay.
    """
    match = STEPS.fullmatch(step)
    if not match:
        return step
    old_ends, new_ends = (
        np.cumsum([0, *np.bincount(trace.kernel, minlength=len(trace.kernels))]) for trace in (old, new)
    )
    moved = round(float(np.interp(int(match[1]), old_ends, new_ends)))
    return f"{moved}{match[2] or ''}" if moved < new.steps else f"{new.steps}"
