"""The grid of the Check page."""

from types import SimpleNamespace

from kernels.check.cases import CheckCase, Grid
from kernels.problem import AttentionProblem
from tests import BUGGY_KERNEL as BUGGY
from tests.viz.check.pages import SMALL, open_page, settled, words
from tests.viz.check.test_page import file_of, tensors
from viz.check import grid as check_grid
from viz.check.context import CheckContext
from viz.check.grid_run import AT_ONCE, GridRun
from viz.shared import runs


def run_grid(**query):
    app = open_page(view="grid", **SMALL | query)
    next(button for button in app.button if button.label.startswith("Run ")).click().run()
    return settled(app, lambda app: "Select a row to open its case" in words(app))


def test_a_grid_runs_all_cases_and_says_what_it_left_out():
    app = run_grid(shapes="16, 20x30, 9000", kernel="flash1")
    assert not app.exception
    assert ":green[**4 pass**]" in words(app)
    assert "2 cases left out, more than 3 s each in the interpreter: 9000x9000" in words(app)
    table = app.dataframe[0].value
    assert list(table["verdict"]) == ["passes"] * 4
    assert list(table["error / allowed"]) == sorted(table["error / allowed"], reverse=True)


def test_failures_come_first_and_a_row_opens_its_case(named):
    named(f"{BUGGY}:attention")
    app = run_grid(shapes="16, 80")
    table = app.dataframe[0].value
    assert list(table["verdict"]) == ["FAILS", "FAILS", "passes", "passes"]  # one tile alone needs no rescale
    assert set(table["query"][:2]) == {80}


def test_opening_a_row_sets_every_widget(monkeypatch):
    state = {"grid-table": SimpleNamespace(selection=SimpleNamespace(rows=[1]))}
    monkeypatch.setattr(check_grid.st, "session_state", state)
    problem = AttentionProblem(q_len=7, mask="causal")
    check_grid._open([(CheckCase(AttentionProblem()), None), (CheckCase(problem), None)])
    assert state["view"] == "case"
    assert {name: state[name] for name in problem.as_dict()} == problem.as_dict()
    assert (state["layout"], state["scale"]) == ("contiguous", None)


def test_a_stopped_grid_keeps_what_it_has():
    store = runs.run_store()
    assert store.client.wait_ready(60)
    cases = tuple(
        CheckCase(AttentionProblem.from_dict(SMALL | {"seed": seed}), "flash1") for seed in range(20, 26)
    )
    context = CheckContext(store, "interpreter", ())
    grid = GridRun(cases)
    grid.advance(context)
    assert len(grid.jobs) == AT_ONCE
    assert grid.jobs[0].wait(60)
    grid.advance(context)
    waiting = [job for job in grid.jobs if not job.done]
    grid.stop(context)
    assert all(not store.knows(job.request) for job in waiting)  # the next to ask gets a verdict
    for job in grid.jobs:
        job.wait(30)
    assert not grid.running
    outcomes = grid.outcomes(context)
    assert 1 <= len(outcomes) <= AT_ONCE + 1
    assert any(getattr(outcome, "verdict", "") == "pass" for _, outcome in outcomes)


def test_a_grid_that_was_left_is_checked_anew(monkeypatch):
    store = runs.run_store()
    assert store.client.wait_ready(60)
    cases = tuple(
        CheckCase(AttentionProblem.from_dict(SMALL | {"seed": seed}), "flash1") for seed in (31, 32)
    )
    context, left = CheckContext(store, "interpreter", ()), GridRun(cases)
    left.advance(context)
    monkeypatch.setattr(check_grid.st, "session_state", {check_grid.STATE: left})
    check_grid._run_panel(context, Grid(cases[:1], ()), "")  # other cases are chosen: the run is cut short
    assert all(job.wait(30) for job in left.jobs)
    again = GridRun(cases)
    again.advance(context)
    assert all(job.wait(60) for job in again.jobs)
    assert [getattr(outcome, "verdict", str(outcome)) for _, outcome in again.outcomes(context)] == [
        "pass"
    ] * 2


def test_with_a_file_no_row_opens_the_view_that_shows_the_file():
    app = open_page(view="grid", **SMALL, shapes="16", kernel="flash1")
    app.file_uploader[0].upload("mine.npz", file_of(**tensors()), "application/octet-stream").run()
    next(button for button in app.button if button.label.startswith("Run ")).click().run()
    app = settled(app, lambda app: "The view “case” shows your file." in words(app))
    assert "Select a row to open its case." not in words(app)
