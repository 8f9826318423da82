"""The Gradients chapter without a worker: every line, its numbers, its limits, and the graphs."""

import re

import pytest

from kernels.lessons.gradients import GradientLesson
from kernels.problem import AttentionProblem
from tests.app.pages import open_whole_chapter as open_chapter
from tests.app.pages import words
from tests.viz.learn.shown import html
from viz.learn.gradients.maths import derived
from viz.learn.gradients.page import LINES, byte_bars, equations_of, layer_graph, two_tokens_graphs
from viz.learn.matrices import Matrix
from viz.shared import theme
from viz.shared.formats import format_tex

SMALL = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=32)
pytestmark = pytest.mark.usefixtures("no_worker")


def open_view(view, **query):
    return open_chapter("gradients", gradients_view=view, **query)


def badges(app, color):
    return re.findall(rf":{color}-badge\[([^\]]+)\]", words(app))


def test_every_line_shows_its_formula_and_numbers():
    lesson, app = GradientLesson(), open_view("Line by line")
    assert "Autograd runs in the worker process, and none runs here." in words(app)
    for place, (name, line) in enumerate(LINES.items(), 1):
        assert f"line {place} of {len(LINES)}" in words(app)
        shown = [element.value.strip("$\n ") for element in app.latex]
        assert shown[: len(line.formulas)] == list(line.formulas)
        assert len(shown) == len(line.formulas) + 4  # of changed scores, below
        parts = [part for each in equations_of(name, lesson, 3) for part in each]
        assert html(app).count("<table") == sum(isinstance(part, Matrix) for part in parts) >= 2
        assert badges(app, "green") == badges(app, "red") == []
        forward, back = (app.button(key=f"gradients_derivation_{way}") for way in ("Forward", "Back"))
        assert (back.disabled, forward.disabled) == (place == 1, place == len(LINES))
        if not forward.disabled:
            forward.click().run()
            assert not app.exception


def test_an_equation_is_made_of_the_values_that_it_names():
    lesson = GradientLesson(5, 4)
    ((transposed, times, d_output, sign, result),) = equations_of("dV", lesson, 1)
    assert (transposed.label, times, sign) == ("P<sup>T</sup>", "×", "=")
    assert (transposed.values @ d_output.values == result.values).all()
    ((jacobian, _, d_row, _, result),) = equations_of("dS deltas", lesson, 1)
    assert jacobian.values @ d_row.values == pytest.approx(result.values)
    assert result.values == pytest.approx(derived(lesson)["dS"][0])
    first, *_ = equations_of("heads", lesson, 2)
    labels = [part.label for part in first if isinstance(part, Matrix)]
    assert labels == ["O<sub>0</sub>", "O<sub>1</sub>", "O", "W<sub>O</sub>", "Y"]


def test_the_blocks_own_sum_is_wrong_until_the_block_spans_the_row():
    app = open_view("Row sums D", gradients_block=2)
    assert ("≠" in html(app), len(badges(app, "red"))) == (True, 1)
    app.slider(key="gradients_block").set_value(4).run()
    assert ("≠" in html(app), len(badges(app, "red"))) == (False, 0)


def test_fewer_tokens_and_features_shorten_what_depended_on_them():
    app = open_view("Row sums D", gradients_length=8, gradients_block=8)
    app.number_input(key="gradients_length").set_value(3).run()
    assert app.slider(key="gradients_block").value == 3
    app = open_view("Line by line", gradients_derivation="heads", gradients_dim=4)
    assert app.selectbox(key="gradients_heads").options == ["1", "2", "4"]
    app.number_input(key="gradients_dim").set_value(5).run()
    assert app.selectbox(key="gradients_heads").options == ["1", "5"]


def test_row_wise_is_left_out_if_no_row_fits():
    assert len(byte_bars(SMALL, {})) == len(byte_bars(SMALL.with_(q_len=65536, kv_len=65536), {})) + 1 == 6


def test_the_layer_is_drawn_both_ways_with_its_bytes():
    problem = AttentionProblem(q_len=128, kv_len=128, head_dim=32)
    for backward, letter, way in ((False, "", "forward"), (True, "d", "back")):
        graph = layer_graph(problem, backward, theme.DARK)
        assert graph.count("8.19 kB") == 7
        assert graph.count("32.8 kB") == graph.count('style="dashed"') == 2
        assert graph.count(f'dir="{way}"') == 9
        assert f'"{letter}Z" -> "{letter}Q"' in graph


def test_the_paths_of_two_tokens_add_up_to_the_gradients():
    lesson = GradientLesson(2, 1, seed=4)
    of_value, of_score = two_tokens_graphs(lesson, theme.LIGHT)
    assert (of_value.count("->"), of_score.count("->")) == (10, 4)
    assert len(re.findall(f'->[^]]*"{theme.LIGHT.now}"', of_value)) == 4
    v, formulas = derived(lesson), open_view("Graphs", gradients_seed=4).latex
    for formula, total, factors in (
        (formulas[0].value, v["dV"][0, 0], (v["dO"][:, 0], v["P"][:, 0])),
        (formulas[1].value, v["dS"][0, 0], (v["dP"][0], v["J quotient"][0][:, 0])),
    ):
        assert factors[0] @ factors[1] == pytest.approx(total)
        assert f"= {format_tex(total)}" in formula
        assert all(f"({format_tex(number)})" in formula for each in factors for number in each)
