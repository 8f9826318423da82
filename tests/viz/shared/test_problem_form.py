"""The controls of a problem: what they offer, what they refuse, and what the URL keeps."""

import pytest
from streamlit.testing.v1 import AppTest

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.problem import LIMITS
from kernels.problem.presets import FIRST_PRESET, PRESETS
from viz.shared.formats import plain
from viz.shared.problem_form import CUSTOM, DEFAULT, OWN_GPU, gpu_of


def script():
    """All controls; what they return is kept in the session."""
    import streamlit as st

    from viz.shared import problem_form

    chosen = {"algorithm": problem_form.algorithm_control()}
    chosen["problem"], _ = problem_form.problem_controls()
    chosen["versus"] = problem_form.versus_controls(chosen["problem"]) if chosen["problem"] else None
    chosen["gpu"] = problem_form.gpu_control()
    st.session_state["chosen"] = chosen


def opened(**query):
    app = AppTest.from_function(script)
    for name, value in query.items():
        app.query_params[name] = str(value)
    app.run()
    assert not app.exception
    return app


def chosen(app, name="problem"):
    return app.session_state["chosen"][name]


def url(app):
    """The parameters of the URL as text. What is typed into a control gets there in a browser only."""
    return {
        name: value if isinstance(value, str) else value[0] for name, value in dict(app.query_params).items()
    }


def test_an_empty_url_is_the_first_preset_and_stays_empty():
    app = opened()
    assert chosen(app) == PRESETS[FIRST_PRESET].problem
    assert app.selectbox(key="preset").value == FIRST_PRESET
    assert CUSTOM not in app.selectbox(key="preset").options
    assert (chosen(app, "algorithm"), chosen(app, "versus")) == (FIRST, None)
    assert chosen(app, "gpu") == OWN_GPU
    assert url(app) == {}


@pytest.mark.parametrize("field", LIMITS)
def test_a_field_says_which_numbers_it_takes(field):
    low, high = LIMITS[field]
    takes = f"A whole number from {low:,} to {high:,}. A fraction is cut off; an empty field takes "
    assert f"{takes}{getattr(DEFAULT, field):,}." in opened().number_input(key=field).help


@pytest.mark.parametrize("name", PRESETS)
def test_choosing_a_preset_gives_its_problem_and_its_url_gives_it_back(name):
    app = opened(q_len=100)
    app.selectbox(key="preset").select(name).run()
    assert chosen(app) == PRESETS[name].problem
    assert chosen(app, "algorithm") == (PRESETS[name].algorithm or FIRST)
    again = opened(**url(app))
    assert chosen(again) == PRESETS[name].problem
    assert chosen(again, "algorithm") == (PRESETS[name].algorithm or FIRST)
    assert again.selectbox(key="preset").value == name


def test_a_changed_field_makes_it_a_problem_of_ones_own():
    app = opened()
    app.number_input(key="q_len").set_value(77).run()
    assert chosen(app) == DEFAULT.with_(q_len=77)
    assert app.selectbox(key="preset").value == CUSTOM
    app.number_input(key="q_len").set_value(DEFAULT.q_len).run()
    assert app.selectbox(key="preset").value == FIRST_PRESET


def test_every_field_of_the_problem_is_taken_from_the_url():
    problem = DEFAULT.with_(
        batch=2,
        q_heads=6,
        kv_heads=3,
        q_len=33,
        kv_len=55,
        head_dim=24,
        dtype="float32",
        mask="window",
        block_m=16,
        block_n=128,
        inputs="one_hot",
        seed=9,
        window_left=4,
        window_right=2,
        kv_splits=5,
    )
    assert chosen(opened(**problem.as_dict())) == problem


def warnings(app):
    return [warning.value for warning in app.warning]


@pytest.mark.parametrize(
    ("field", "given", "accepted"),
    [
        ("mask", "round", "expected one of full, causal, window."),
        ("block_m", "7", "expected one of 4, 8, 16, 32, 64, 128."),
        ("dtype", "int8", "expected one of float16, bfloat16, float32."),
        ("q_len", "x", "expected a whole number from 1 to 1,048,576."),
        ("q_len", "0", "expected a whole number from 1 to 1,048,576."),
        ("kv_len", "2000000", "expected a whole number from 1 to 1,048,576."),
        ("seed", "-1", "expected a whole number from 0 to 2,147,483,647."),
    ],
)
def test_what_no_control_takes_is_refused_with_words_that_stay(field, given, accepted):
    app = opened(**{field: given})
    assert chosen(app) == DEFAULT
    words = (
        f"{field}={plain(given)} in the link is not accepted: {accepted} Shown is {getattr(DEFAULT, field)}."
    )
    assert warnings(app) == [words]
    app.run()  # as when the worker is ready; by now the URL has lost the value
    assert warnings(app) == [words]


@pytest.mark.parametrize(("name", "given"), [("gpu", "TPU"), ("versus", "flash9")])
def test_other_choices_that_do_not_exist_are_refused_with_words(name, given):
    app = opened(**{name: given})
    assert warnings(app)[0].startswith(f"{name}={given} in the link is not accepted: expected one of ")


def test_a_refused_value_is_forgotten_once_another_is_chosen():
    app = opened(q_len=2000000)
    app.number_input(key="q_len").set_value(77).run()
    assert warnings(app) == []
    app.number_input(key="q_len").set_value(DEFAULT.q_len).run()
    assert warnings(app) == []


def test_every_value_within_the_limits_is_kept():
    for field, limits in LIMITS.items():
        for value in limits:
            app = (
                opened(**{field: value}, kv_heads=1)
                if field != "kv_heads"
                else opened(q_heads=1024, kv_heads=value)
            )
            assert app.number_input(key=field).value == value
            assert warnings(app) == []


def test_heads_that_do_not_fit_are_refused_and_kept():
    app = opened(q_heads=6, kv_heads=4)
    assert chosen(app) is None
    assert "it must divide q_heads=6" in app.error[0].value
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


def test_the_algorithm_is_in_the_url_by_its_name():
    app = opened(algorithm="flash1")
    assert chosen(app, "algorithm") == "flash1"
    assert set(app.selectbox(key="algorithm").options) == {entry.label for entry in ALGORITHMS.values()}
    app.selectbox(key="algorithm").select("standard").run()
    assert chosen(app, "algorithm") == "standard"
    assert url(app) == {"algorithm": "standard"}
    unknown = opened(algorithm="<script>")
    assert chosen(unknown, "algorithm") == FIRST
    assert warnings(unknown)[0].startswith(
        r"algorithm=\<script\> in the link is not accepted: expected one of"
    )


def test_a_second_run_differs_in_what_was_changed():
    app = opened(versus="flash1", versus_block_n="16", versus_mask="full")
    assert chosen(app, "versus") == (DEFAULT.with_(block_n=16, mask="full"), "flash1")
    app.selectbox(key="versus_block_n").select("same").run()
    assert chosen(app, "versus") == (DEFAULT.with_(mask="full"), "flash1")
    app.selectbox(key="versus").select("none").run()
    assert chosen(app, "versus") is None


def test_the_gpu_is_one_of_the_list_or_that_of_the_run():
    for name in GPUS:
        assert chosen(opened(gpu=name), "gpu") == name
    assert chosen(opened(gpu="TPU"), "gpu") == OWN_GPU


def test_limits_are_those_of_the_chosen_gpu_else_of_the_one_that_ran():
    here = "NVIDIA H100 80GB HBM3"
    assert gpu_of(OWN_GPU, here) == GPUS["H100"]
    assert gpu_of("A100", here) == GPUS["A100"]
    for name in ("a CPU", "NVIDIA GeForce RTX 4090"):  # no GPU, and one whose limits are not known here
        assert gpu_of(OWN_GPU, name) == GPUS[DEFAULT_GPU]
