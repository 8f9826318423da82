"""The talks that come with the project, the runs of a talk, and what the stage asks while it goes on.

A question is a scene with the problem that the speaker has picked ("What if?"), which is run here. The stage
asks again until the run is no longer under way; meanwhile it shows what it showed before. A window asks one
question at a time: what runs for an earlier one alone is cancelled, and delays nothing. Nothing here waits
longer than WAIT_S for a run.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kernels.algorithms import ALGORITHMS
from kernels.measure.measurement import Measurement
from kernels.problem import InvalidProblem
from kernels.recordings import recorded_measurement
from kernels.worker.failures import FAILURES
from kernels.worker.requests import TraceRequest
from viz.player.talk.data import Runs, talk_data
from viz.player.talk.scene import InvalidTalk, Scene, Talk
from viz.player.talk.what_if import changed
from viz.shared import runs
from viz.shared.run_request import RunRequest
from viz.shared.runs import RunStore, backend, estimated_seconds, recorded
from viz.shared.waiting import job_words

WAIT_S = 0.3
LONGEST_S = 12.0
"""What is estimated to take longer is not offered: the stage waits 15 s, and estimates are rough."""


def answer(
    read: Callable[[], Talk], asked: Mapping, store: runs.RunStore | None, window: str = ""
) -> dict | None:
    """What the stage is told about a question {id, scene, picks}, which comes from a browser.

    With its id: "without", if it `opens` the panel, the values that are not offered beside what is picked, as
    {name of a choice: their numbers}; "waits" and what the job does now, "failed" and why, or "shown", the
    scene as `talk_data` has it with the runs and duels of its own. Its stops are still those of the talk: the
    stage moves them.
    None for {leaves: true}, by which a window says that it wants no run any more. `window` names who asks.
    `read` gives the talk or raises InvalidTalk: its file may be edited while it is on stage.
    """
    if asked.get("leaves"):
        if store:
            store.let_go(window)
        return None
    said = {"id": asked.get("id")}
    try:
        talk = read()
        if asked.get("opens"):
            return said | {"without": _not_offered(talk, asked, store)}
        scene = _picked(talk, asked)
        if store:
            store.let_go(window, but=[TraceRequest(*run) for run in scene.runs])
        found = _runs_of(scene, store, window)
        return said | ({"waits": found} if isinstance(found, str) else {"shown": _shown(scene, found)})
    except (InvalidProblem, InvalidTalk, *FAILURES) as error:
        return said | {"failed": str(error)}


def _alone(scene: Scene) -> Talk:
    return Talk("", 1.0, (scene,))


def _picked(talk: Talk, asked: Mapping) -> Scene:
    """The scene with the picked problem, for both runs of a comparison. Raises InvalidProblem."""
    index, picks = asked.get("scene"), asked.get("picks")
    if type(index) is not int or not 0 <= index < len(talk.scenes) or not isinstance(picks, dict):
        accepted = f"expected a scene from 0 to {len(talk.scenes) - 1}, and picks"
        raise InvalidProblem("live", str(index), accepted)
    scene = talk.scenes[index]
    if scene.run is None:
        raise InvalidProblem("live", str(index), "this scene shows a chart, and no run that could change")
    run, versus = changed((scene.run, scene.versus), scene.live, picks)
    return replace(scene, run=run, versus=versus)


def _not_offered(talk: Talk, asked: Mapping, store: RunStore | None) -> dict[str, list[int]]:
    def is_refused(name: str, index: int) -> bool:
        try:
            _found_and_wanted(_picked(talk, {**asked, "picks": asked["picks"] | {name: index}}), store)
        except (InvalidProblem, InvalidTalk):
            return True
        return False

    live = _picked(talk, asked).live
    return {each.name: [i for i in range(len(each.values)) if is_refused(each.name, i)] for each in live}


def _found_and_wanted(scene: Scene, store: RunStore | None) -> tuple[Runs, list[RunRequest]]:
    """The recorded runs of a scene, and those to make here. Raises InvalidTalk if that takes too long."""
    talk = _alone(scene)
    found = recorded_runs(talk)
    wanted = dict(runs_to_make(talk, found, store))
    if (seconds := sum(wanted.values())) > LONGEST_S:
        raise InvalidTalk(f"This would take about {seconds:,.0f} s here.")
    return found, list(wanted)


def _runs_of(scene: Scene, store: runs.RunStore | None, window: str) -> Runs | str:
    """The runs of a scene, recorded or made here; words while they are under way. Raises a job's failure."""
    found, wanted = _found_and_wanted(scene, store)
    for name in wanted:
        assert store
        job = store.job(TraceRequest(*name), holder=window)
        if not job.wait(WAIT_S):
            return job_words(job)
        try:
            run = runs.live_run(job.result())
        except FAILURES:
            store.forget(job)  # the next question starts it anew
            raise
        found[name] = run.trace, run.provenance
    return found


def _shown(scene: Scene, found: Runs) -> dict:
    """The scene as the stage shows it, with the words of its own runs."""
    data = talk_data(_alone(replace(scene, notes="")), found, measured, is_picked=True)
    return data["scenes"][0] | {"own": {"runs": data["runs"], "duels": data["duels"]}}


NAMES = ("flash_attention_in_5_minutes", "from_softmax_to_flash_attention_3", "the_backward_pass")


def talk_path(name: str) -> Path:
    """The file of a shipped talk."""
    return Path(__file__).parent / f"{name}.toml"


def recorded_runs(talk: Talk) -> Runs:
    """Those runs of a talk that were recorded."""
    found = {name: recorded(name.problem, name.algorithm) for name in talk.runs}
    return {name: (run.trace, run.provenance) for name, run in found.items() if run}


def runs_to_make(talk: Talk, found: Runs, store: RunStore | None) -> Iterator[tuple[RunRequest, float]]:
    """Runs that were not found, with their rough time here. Raises InvalidTalk if nothing can run here."""
    for name in talk.runs:
        if name not in found:
            algorithm, where = ALGORITHMS[name.algorithm], backend(store)
            if where == "replay":
                words = f"{algorithm.label} of {name.problem} was not recorded, and nothing can run here."
                raise InvalidTalk(f"{talk.file}: {words}" if talk.file else words)
            yield name, estimated_seconds(name.problem, algorithm, where)


def measured(name: RunRequest) -> Measurement | None:
    """Recorded times of a run's problem."""
    return recorded_measurement(name.problem)
