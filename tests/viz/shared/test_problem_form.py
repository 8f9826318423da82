"""The controls of a problem: what they offer, what they refuse, and what the URL keeps."""

import pytest

from kernels.algorithms import FIRST
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.problem import LIMITS
from kernels.problem.presets import FIRST_PRESET, PRESETS
from tests.app.pages import run_script
from viz.shared.problem_form import CUSTOM, DEFAULT, gpu_of


def script():
    """All controls; what they return is kept in the session."""
    import streamlit as st

    from viz.shared import problem_form

    chosen = {"algorithm": problem_form.algorithm_control()}
    chosen["problem"], _ = problem_form.problem_controls()
    chosen["versus"] = problem_form.versus_controls(chosen["problem"]) if chosen["problem"] else None
    st.session_state["chosen"] = chosen


def opened(**query):
    return run_script(script, **query)


def chosen(app, name="problem"):
    return app.session_state["chosen"][name]


def url(app):
    """The parameters of the URL as text. What is typed into a control gets there in a browser only."""
    return {name: "".join(value) for name, value in dict(app.query_params).items()}


def test_an_empty_url_is_the_first_preset_and_stays_empty():
    app = opened()
    assert chosen(app) == PRESETS[FIRST_PRESET].problem
    assert app.selectbox(key="preset").value == FIRST_PRESET
    assert CUSTOM not in app.selectbox(key="preset").options
    assert (chosen(app, "algorithm"), chosen(app, "versus")) == (FIRST, None)
    assert url(app) == {}
    for field, (low, high) in LIMITS.items():
        assert f"{low:,} to {high:,}" in app.number_input(key=field).help


@pytest.mark.parametrize("name", ["window", "decode"])
def test_choosing_a_preset_gives_its_problem_and_its_url_gives_it_back(name):
    app = opened(q_len=100)
    assert chosen(app) == DEFAULT.with_(q_len=100)
    assert app.selectbox(key="preset").value == CUSTOM
    app.selectbox(key="preset").select(name).run()
    for each in (app, opened(**url(app))):
        assert chosen(each) == PRESETS[name].problem
        assert chosen(each, "algorithm") == (PRESETS[name].algorithm or FIRST)
        assert each.selectbox(key="preset").value == name


def test_every_field_of_the_problem_is_taken_from_the_url():
    shape = {"q_len": 33, "kv_len": 55, "head_dim": 24, "block_m": 16, "block_n": 128}
    shape |= {"q_heads": 6, "kv_heads": 3}
    more = {"dtype": "float32", "mask": "window", "inputs": "one_hot", "window_left": 4, "window_right": 2}
    problem = DEFAULT.with_(batch=2, seed=9, kv_splits=5, **shape, **more)
    assert chosen(opened(**problem.as_dict())) == problem


def test_heads_that_do_not_fit_are_refused_and_kept():
    app = opened(q_heads=6, kv_heads=4)
    assert chosen(app) is None
    assert "q_heads=6" in app.error[0].value
    assert app.selectbox(key="preset").value == CUSTOM
    assert url(app) == {"q_heads": "6", "kv_heads": "4"}
    app.number_input(key="kv_heads").set_value(3).run()
    assert not app.error
    assert chosen(app) == DEFAULT.with_(q_heads=6, kv_heads=3)


def test_the_window_counts_only_under_a_window_mask():
    app = opened(window_left=7)
    assert chosen(app) == DEFAULT
    assert app.number_input(key="window_left").disabled
    app.selectbox(key="mask").select("window").run()
    assert chosen(app) == DEFAULT.with_(mask="window", window_left=7)
    assert not app.number_input(key="window_left").disabled


def test_a_second_run_differs_in_what_was_changed():
    app = opened(versus="flash1", versus_block_n="16", versus_mask="full")
    assert chosen(app, "versus") == (DEFAULT.with_(block_n=16, mask="full"), "flash1")
    app.selectbox(key="versus_block_n").select("same").run()
    assert chosen(app, "versus") == (DEFAULT.with_(mask="full"), "flash1")
    app.selectbox(key="versus").select("none").run()
    assert chosen(app, "versus") is None


def test_limits_are_those_of_the_gpu_that_ran():
    assert gpu_of("NVIDIA H100 80GB HBM3") == GPUS["H100"]
    for name in ("a CPU", "NVIDIA GeForce RTX 4090"):  # no GPU, and one whose limits are not known here
        assert gpu_of(name) == GPUS[DEFAULT_GPU]
