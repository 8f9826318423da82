"""One problem for Explore, Measure and Check: what is chosen on one page, the next one opens with."""

import pytest
from streamlit.util import calc_hash

from kernels.problem import AttentionProblem
from kernels.problem.presets import FIRST_PRESET, PRESETS
from tests.app.pages import open_page
from viz.shared import runs
from viz.shared.kept_problem import KEPT, as_measured, measure_fields, measured_words

PROBLEM = AttentionProblem(2, 8, 2, 48, 48, 80, "bfloat16", "causal", 16, 16)


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    """Controls are tested here, not runs."""
    monkeypatch.setattr(runs, "backend", lambda store: "replay")
    monkeypatch.setattr(runs, "run_store", lambda: None)
    monkeypatch.setattr("viz.shared.layout.triton_missing", lambda: "no Triton")


def go_to(app, page):
    """What the navigation does: a page without parameters."""
    app._page_hash = calc_hash(page)
    app.query_params.clear()
    app.run()
    assert not app.exception
    return app


def shown_on_measure(app):
    keys = [name for name in measure_fields(PROBLEM) if name not in ("len", "load", "gpu_load", "gpu_heads")]
    return {key: app.session_state[key] for key in keys}


def test_measure_opens_with_the_problem_of_explore_and_gives_it_back():
    app = go_to(open_page(**PROBLEM.as_dict()), "measure")
    wanted = measure_fields(PROBLEM)
    assert shown_on_measure(app) == {key: wanted[key] for key in shown_on_measure(app)}
    assert app.session_state[KEPT] == PROBLEM
    app.selectbox(key="hd").set_value(128).run()
    assert app.session_state[KEPT] == PROBLEM.with_(head_dim=128)
    app = go_to(app, "check")
    assert app.number_input(key="head_dim").value == 128
    assert app.number_input(key="q_len").value == 48


def test_what_a_page_shows_by_itself_is_no_choice():
    app = go_to(open_page(), "measure")
    assert KEPT not in app.session_state
    assert app.selectbox(key="masking").value == "full"
    app.selectbox(key="hd").set_value(128).run()
    assert app.session_state[KEPT] == PRESETS[FIRST_PRESET].problem.with_(head_dim=128)


def test_a_link_counts_before_what_was_kept():
    app = open_page(**PROBLEM.as_dict())
    app._page_hash = calc_hash("measure")
    app.query_params.clear()
    app.query_params["hd"] = "256"
    app.query_params["len"] = "512"
    app.run()
    assert (app.selectbox(key="hd").value, app.session_state["kv"]) == (256, 0)
    kept = app.session_state[KEPT]
    assert (kept.head_dim, kept.q_len, kept.kv_len, kept.kv_heads) == (256, 512, 512, kept.q_heads)
    assert kept.block_m == PROBLEM.block_m


def test_measure_says_what_it_does_not_take():
    window = PROBLEM.with_(mask="window", q_len=1)
    assert as_measured(window) == PROBLEM.with_(window_left=128)
    app = go_to(open_page(**window.as_dict()), "measure")
    assert any("takes a part" in each.value for each in app.caption)
    assert measured_words(PROBLEM) == ""
    assert app.session_state[KEPT] == window
