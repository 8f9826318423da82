"""Which run Explore shows, by a worker that the test plays: sampled, awaited, refused, failed."""

from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_problems
from kernels.trace.sample import Sample
from kernels.worker.failures import OutOfMemory
from tests.viz.shared.fakes import FakeClient, end
from viz.explore.current_run import duration
from viz.shared.runs import RunStore

SMALL = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=32)
LONG = SMALL.with_(q_len=131072, kv_len=131072, mask="causal", block_m=64, block_n=64)
GPT2 = PRESETS["gpt2"].problem


pytestmark = pytest.mark.usefixtures("impatient")


def script():
    """The run alone."""
    import streamlit as st

    from viz.explore.current_run import current_run

    given = st.session_state["given"]
    place = st.container() if given.first else None
    st.session_state["run"] = current_run(given.store, given.backend, given.problem, given.algorithm, place)


def opened(problem, algorithm="flash2", backend="cuda", first=True):
    app = AppTest.from_function(script)
    store = RunStore(FakeClient())
    app.session_state["given"] = SimpleNamespace(
        store=store, backend=backend, problem=problem, algorithm=algorithm, first=first
    )
    app.run()
    assert not app.exception
    return app


def shown(app):
    return app.session_state["run"]


def jobs(app):
    return app.session_state["given"].store.client.jobs


def infos(app):
    return [info.value for info in app.info]


def labels(app):
    return [button.label for button in app.button]


def test_a_long_run_is_sampled_at_once_and_says_so():
    app = opened(LONG)
    assert jobs(app)[0].request.sample == Sample((0,), (0, 1024, 2047))
    assert "3 of 2,048 query tiles are traced" in app.caption[0].value
    assert "about 43 s here" in app.caption[0].value
    assert "Trace the whole run" in labels(app)


def test_the_whole_run_is_traced_after_a_click():
    app = opened(LONG)
    next(button for button in app.button if button.label == "Trace the whole run").click().run()
    assert [job.request.sample is None for job in jobs(app)] == [False, True]
    assert not app.caption


def test_a_whole_run_that_the_worker_would_not_end_is_not_offered():
    assert "Trace the whole run" not in labels(opened(LONG.with_(q_heads=32)))


def test_a_sample_that_takes_long_waits_for_a_button():
    app = opened(LONG.with_(mask="full", block_n=32, block_m=128, head_dim=256), backend="interpreter")
    assert jobs(app) == []
    assert infos(app)[0].startswith("This sample takes about ")
    app.button[0].click().run()
    assert len(jobs(app)) == 1


def test_a_long_run_that_has_no_sample_waits_for_a_button():
    app = opened(LONG, "flash1")
    assert jobs(app) == []
    assert "FlashAttention-1 has no sample that is much shorter" in infos(app)[0]
    assert labels(app) == ["Run"]
    assert shown(app).meanwhile


def test_while_a_run_is_awaited_the_nearest_recording_stands_in_by_name():
    app = opened(LONG)
    assert shown(app).meanwhile
    assert shown(app).trace.problem == PRESETS["gpt2"].problem
    assert "FlashAttention-2, 1024 × 1024" in infos(app)[0]
    assert "recorded on NVIDIA H200" in infos(app)[0]


def test_the_run_that_was_shown_before_stays_while_the_next_is_awaited():
    app = opened(SMALL)
    end(jobs(app)[0])
    app.run()
    assert shown(app).trace.problem == SMALL
    assert not shown(app).meanwhile
    app.session_state["given"].problem = LONG
    app.run()
    assert shown(app).meanwhile
    assert shown(app).trace.problem == SMALL
    assert "64 × 64" in infos(app)[0]


def test_a_problem_that_was_changed_before_its_run_began_is_not_run():
    app = opened(SMALL)
    for seed in (1, 2):
        app.session_state["given"].problem = SMALL.with_(seed=seed)
        app.run()
    assert [job.done for job in jobs(app)] == [True, True, False]
    jobs(app)[2].started = True
    app.session_state["given"].problem = SMALL
    app.run()
    assert [job.done for job in jobs(app)] == [True, True, False, False]
    assert not app.error
    end(jobs(app)[3])
    app.run()
    assert shown(app).trace.problem == SMALL


def test_nothing_stands_in_for_a_failure_or_for_the_second_run():
    app = opened(SMALL)
    jobs(app)[0].finish(failure=OutOfMemory(10**12, 10**9))
    app.run()
    assert shown(app) is None
    assert "Out of memory" in app.error[0].value
    second = opened(LONG, first=False)
    assert shown(second) is None
    assert infos(second) == []


def test_while_the_worker_starts_no_estimate_is_shown_and_nothing_long_is_asked():
    app = opened(LONG, backend="starting")
    assert jobs(app) == []
    assert shown(app).meanwhile
    assert len(infos(app)) == 1
    assert not app.caption
    assert "Run" not in labels(app)
    assert len(jobs(opened(SMALL, backend="starting"))) == 1  # short anywhere
    recorded = opened(GPT2, backend="starting")
    assert not shown(recorded).meanwhile
    assert shown(recorded).recorded


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_something_stands_in_for_every_algorithm(algorithm):
    problem = ALGORITHMS[algorithm].with_own_tiles(LONG.with_(seed=5, head_dim=64))
    run = shown(opened(problem, algorithm, backend="starting"))
    assert run.meanwhile
    if recorded_problems(algorithm):
        assert run.trace.algorithm == algorithm


def test_times_are_in_words_that_people_use():
    assert [duration(seconds) for seconds in (4, 119, 600, 9000)] == ["4 s", "119 s", "10 min", "2.5 h"]
