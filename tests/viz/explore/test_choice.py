"""Which run Explore shows: the decision, without a page or a worker."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_problems
from kernels.trace.sample import Sample
from kernels.worker.requests import TraceRequest
from tests.kernels.algorithms.flash3.as_if import as_if_run
from viz.explore import choice
from viz.explore.choice import Machine, choose, duration, run_presets, stand_in
from viz.shared import runs
from viz.shared.run_request import RunRequest, own_tiles

CPU = Machine("interpreter", DeviceInfo("interpreter", "a CPU", "2.9", "3.6", "3.12"))
AMPERE = Machine("cuda", DeviceInfo("cuda", "NVIDIA A100", "2.9", "3.6", "3.12", compute_capability="8.0"))
HOPPER = Machine("cuda", DeviceInfo("cuda", "NVIDIA H200", "2.9", "3.6", "3.12", compute_capability="9.0"))
STARTING, REPLAY = Machine("starting"), Machine("replay")
EVERYWHERE = (CPU, AMPERE, HOPPER, STARTING, REPLAY)

SMALL = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=32)
LONG = SMALL.with_(q_len=131072, kv_len=131072, mask="causal", block_m=64, block_n=64)
SLOW_SAMPLE = LONG.with_(mask="full", block_n=32, block_m=128, head_dim=256)
GPT2 = PRESETS["gpt2"].problem
OWN = AttentionProblem(q_len=256, kv_len=256, head_dim=64, block_m=128, block_n=128)


def chosen(problem, machine, algorithm="flash2", asked=""):
    return choose(RunRequest(problem, algorithm), machine, asked)


@pytest.mark.parametrize("machine", EVERYWHERE, ids=lambda machine: machine.backend)
def test_a_recorded_problem_shows_its_recording_and_offers_a_run_where_one_is_possible(machine):
    found = chosen(GPT2, machine)
    assert (found.case, found.recording.trace.problem, found.trace) == ("recorded", GPT2, None)
    assert found.offer == ("" if machine is REPLAY else "here")


def test_once_it_was_asked_for_it_is_run_here():
    found = chosen(PRESETS["tiny"].problem, CPU, asked="here")
    assert (found.case, found.recording, found.offer) == ("run", None, "")
    assert found.trace == TraceRequest(PRESETS["tiny"].problem, "flash2")
    assert chosen(PRESETS["tiny"].problem, REPLAY, asked="here").case == "recorded"


@pytest.mark.parametrize("machine", [CPU, AMPERE, STARTING], ids=lambda machine: machine.backend)
def test_a_short_run_is_asked_for_at_once_even_while_the_worker_starts(machine):
    found = chosen(SMALL, machine)
    assert (found.case, found.trace, found.words) == ("run", TraceRequest(SMALL, "flash2"), "")
    assert 0 < found.seconds < choice.LONG_S


def test_a_long_run_is_sampled_and_the_whole_is_offered_if_the_worker_could_end_it():
    found = chosen(LONG, HOPPER)
    assert found.trace.sample == Sample((0,), (0, 1024, 2047))
    assert "3 of 2,048" in found.words
    assert (found.offer, found.seconds < choice.LONG_S) == ("whole", True)
    assert chosen(LONG.with_(q_heads=32), HOPPER).offer == ""
    assert (chosen(LONG, STARTING).case, chosen(LONG, STARTING).trace) == ("starting", None)
    assert chosen(SLOW_SAMPLE, CPU).seconds > choice.LONG_S  # waits for a button
    without_sample = chosen(LONG, HOPPER, "flash1")
    assert without_sample.trace.sample is None
    assert without_sample.seconds > choice.LONG_S
    whole = chosen(LONG, HOPPER, asked="whole")
    assert (whole.trace, whole.seconds, whole.words) == (TraceRequest(LONG, "flash2"), 0, "")


def test_without_a_worker_what_is_not_recorded_cannot_be_shown_but_its_recordings_are_linked():
    found = chosen(SMALL, REPLAY)
    assert (found.case, found.recording, found.trace) == ("not recorded", None, None)
    assert found.words
    assert PRESETS["gpt2"] in found.links


# --- an algorithm with its own tiles that needs a GPU; the recordings are traces as if it had run ---


@pytest.fixture
def recorded(monkeypatch):
    """Recordings of OWN and of the GPT-2 head, in place of those that are shipped."""
    run = runs.Run(as_if_run(OWN), None, recorded=True)
    known = dict.fromkeys((OWN, ALGORITHMS["flash3"].with_own_tiles(GPT2)), run)
    monkeypatch.setattr(choice, "recorded_problems", lambda name: tuple(known))
    monkeypatch.setattr(runs, "recorded", lambda problem, name: known.get(problem))
    return run


@pytest.mark.parametrize(("machine", "here"), [(CPU, "interpreter"), (AMPERE, "A100, has 8.0")])
def test_without_its_gpu_its_recording_is_replayed(machine, here, recorded):
    found = chosen(OWN, machine, "flash3", asked="here")
    assert (found.case, found.recording, found.trace, found.offer) == ("replayed", recorded, None, "")
    assert "compute capability 9.0" in found.words
    assert here in found.words


@pytest.mark.parametrize("machine", [CPU, AMPERE, REPLAY], ids=lambda machine: machine.backend)
def test_without_a_recording_it_says_what_it_needs_and_links_to_those_that_there_are(machine, recorded):
    found = chosen(OWN.with_(seed=3), machine, "flash3")
    assert (found.case, found.recording, found.trace) == ("not recorded", None, None)
    assert "compute capability 9.0" in found.words
    assert PRESETS["gpt2"] in found.links


@pytest.mark.parametrize("machine", [HOPPER, STARTING, REPLAY], ids=lambda machine: machine.backend)
@pytest.mark.parametrize("changes", [{"dtype": "float32"}, {"head_dim": 16}])
def test_a_problem_that_it_does_not_take_is_refused_at_once_if_its_gpu_may_be_here(
    machine, changes, recorded
):
    problem = ALGORITHMS["flash3"].with_own_tiles(OWN.with_(**changes))
    found = chosen(problem, machine, "flash3")
    assert (found.case, found.recording, found.trace) == ("refused", None, None)
    assert "is not accepted" in found.words
    assert found.links


def test_until_the_worker_has_said_its_device_nothing_is_asked_of_it(recorded):
    assert chosen(OWN.with_(seed=3), STARTING, "flash3").case == "starting"
    assert (chosen(OWN, STARTING, "flash3").case, chosen(OWN, STARTING, "flash3").offer) == ("recorded", "")


def test_on_its_gpu_it_runs(recorded):
    assert chosen(OWN.with_(seed=3), HOPPER, "flash3").trace.problem == OWN.with_(seed=3)
    assert chosen(OWN, HOPPER, "flash3").offer == "here"


# --- which tiles ---

CHOSEN = OWN.with_(block_m=64, block_n=64)


def test_a_run_has_its_algorithms_tiles_and_that_is_said():
    *runs, words = own_tiles(RunRequest(CHOSEN, "flash3"), None)
    assert runs == [(OWN, "flash3"), None]
    assert "128 × 128" in words[0]
    not_run = CHOSEN.with_(dtype="float32"), "flash3"
    for said_of in ((OWN, "flash3"), (CHOSEN, "flash2"), not_run):
        assert own_tiles(RunRequest(*said_of), None)[2] == ()
    assert own_tiles(RunRequest(CHOSEN, "flash2"), None)[0] == (CHOSEN, "flash2")


@pytest.mark.parametrize("names", [("flash3", "flash2"), ("flash2", "flash3")])
def test_in_a_comparison_each_run_has_the_tiles_that_it_has_alone(names):
    *runs, words = own_tiles(*(RunRequest(CHOSEN, name) for name in names))
    assert runs == [(OWN if name == "flash3" else CHOSEN, name) for name in names]
    assert len(words) == 1


# --- what stands in ---


def test_a_recording_stands_in_for_every_algorithm_its_own_if_there_is_one():
    own = [name for name in ALGORITHMS if recorded_problems(name)]
    assert [stand_in(name).trace.algorithm for name in own] == own
    assert all(map(stand_in, ALGORITHMS))


def test_times_are_in_words_that_people_use():
    assert [duration(seconds) for seconds in (4, 119, 600, 9000)] == ["4 s", "119 s", "10 min", "2.5 h"]


def test_presets_are_run_ahead_as_the_button_would_one_at_a_time():
    asked, log = [], []

    def job(request):
        asked.append(request)
        log.append("asked")
        return SimpleNamespace(wait=lambda: log.append("waited"))

    run_presets(replace(HOPPER, store=SimpleNamespace(job=job)))
    assert log == ["asked", "waited"] * len(PRESETS)
    assert chosen(GPT2, HOPPER, asked="here").trace in asked
    assert chosen(PRESETS["decode"].problem, HOPPER, "split_kv", "here").trace in asked
