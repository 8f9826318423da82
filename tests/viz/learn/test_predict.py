"""Predictions: nothing is given away, a slip is named, and the answer is what the page computes."""

import math
import re

import pytest

from kernels.lessons.kernel_rows import row_steps
from kernels.lessons.memory import SPECK
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.app.pages import open_chapter
from viz.learn.kernel import step_words
from viz.shared import runs


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    monkeypatch.setattr(runs, "run_store", lambda: None)


def words(app):
    return "\n".join(markdown.value for markdown in app.markdown)


def type_and_check(app, **numbers):
    for field in app.number_input:
        name = (field.key or "").rsplit("_", 1)[-1]
        if name in numbers and field.label == name:
            field.set_value(numbers[name])
    next(button for button in app.button if button.label == "Check").click().run()
    assert not app.exception
    return words(app)


def test_the_softmax_of_the_next_block_by_hand():
    app = open_chapter("softmax", softmax_part="One pass")
    assert "0.1353" not in words(app)
    given = re.search(r"and Y [=≈] (-?[\d.]+)\. What will", words(app))
    terms, values = (1, math.exp(-4)), (3, 4)  # of the scores 5 and 1
    y = math.exp(-2) * float(given[1]) + sum(map(math.prod, zip(terms, values, strict=True)))
    assert "old sum was added without being rescaled" in type_and_check(app, m=5.0, α=0.135, l=2.386, Y=y)
    said = type_and_check(app, l=1.203)
    assert "rose from 3 to" in said
    assert "red-badge" not in said


def test_show_gives_the_numbers_without_an_answer():
    app = open_chapter("kernel")
    step = row_steps(recorded_run(PRESETS["tiny"].problem, "flash2").trace, 0)[1]
    assert step_words(step) not in words(app)
    next(button for button in app.button if button.label == "Show").click().run()
    assert step_words(step) in words(app)
    app.number_input(key="kernel_after").set_value(2).run()
    assert step_words(step) not in words(app)  # another step is another question


@pytest.mark.parametrize(("after", "said"), [(0, "first tile"), (1, "rose from 0.535"), (2, "stays 1.12")])
def test_a_step_in_plain_words_with_its_numbers(after, said):
    step = row_steps(recorded_run(PRESETS["tiny"].problem, "flash2").trace, 0)[after]
    assert said in step_words(step)


def test_a_weight_from_its_score_and_lse():
    app = open_chapter("gradients")
    asked = next(markdown.value for markdown in app.markdown if "its weight in P" in markdown.value)
    score, lse = (float(part.split("**")[0].replace("−", "-")) for part in asked.split("is **")[1:])
    before = [element.proto.body for element in app.get("html")]
    assert "not subtracted" in type_and_check(app, P=math.exp(score))
    assert "P = e^(" in type_and_check(app, P=math.exp(score - lse))
    assert [element.proto.body for element in app.get("html")] != before  # the weight is now in the picture


def test_a_choice_is_answered_with_the_reason():
    app = open_chapter("memory")
    assert not app.success
    app.radio[0].set_value("all of S").run()
    assert SPECK in app.error[0].value
    app.radio[0].set_value(SPECK).run()
    assert "33.6 MB" in app.success[0].value
    app.selectbox(key="memory_n").set_value(512).run()
    assert not app.success  # another N is another question


@pytest.mark.parametrize(("block_m", "answer"), [(64, "half as many"), (128, "half as many")])
def test_larger_query_tiles_read_k_and_v_less_often(block_m, answer):
    app = open_chapter("io", io_bm=block_m, io_t=1024)
    app.radio[0].set_value(answer).run()
    assert f"{1024 // block_m} times in all now, and {1024 // block_m // 2} times" in app.success[0].value


def test_with_one_query_tile_nothing_is_read_less_often():
    app = open_chapter("io", io_bm=128, io_t=128)
    app.radio[0].set_value("as many").run()
    assert app.success


@pytest.mark.parametrize(
    ("length", "kib", "said"), [(256, 64, True), (1024, 64, False), (1024, 227, True), (16384, 16, False)]
)
def test_why_flash1_moves_more_than_row_wise_is_said_only_where_it_does(length, kib, said):
    assert ("Why does FlashAttention-1 move more" in words(open_chapter("io", io_t=length, io_m=kib))) is said


@pytest.mark.parametrize(
    ("topic", "head_dim", "answer"),
    [
        ("FlashAttention-3", 64, "1,024"),  # both units take as long
        ("FlashAttention-3", 128, "2,048"),
        ("FlashAttention-4", 64, "as many"),
        ("FlashAttention-4", 128, "half as many"),
    ],
)
def test_overlap_is_predicted_from_the_clocks_of_the_units(topic, head_dim, answer):
    """The answer follows from the FLOPs of a tile, 4 128^2 d, and the rates of the tensor cores."""
    prefix = {"FlashAttention-3": "after_overlap", "FlashAttention-4": "after_units"}[topic]
    app = open_chapter("after", after_topic=topic, **{f"{prefix}_head_dim": head_dim})
    products, exponentials = 4 * 128 * 128 * head_dim / 4096, 128 * 128 / 16
    before, after = max(products, exponentials), max(products / 2, exponentials)
    right = {"FlashAttention-3": f"{before:,.0f}", "FlashAttention-4": {0.5: "half as many", 1: "as many"}}
    computed = right[topic] if topic == "FlashAttention-3" else right[topic][after / before]
    assert computed == answer
    (question,) = (radio for radio in app.radio if answer in radio.options)
    question.set_value(answer).run()
    assert app.success
    assert not app.error


def test_what_falls_with_the_online_softmax_is_what_the_picture_shows():
    app = open_chapter("ideas")
    app.radio[0].set_value("2").run()
    assert "On this shape 2 fall" in app.success[0].value
    without = open_chapter("ideas", ideas_show="without online softmax")
    assert " ".join(element.proto.body for element in without.get("html")).count(">falls<") == 2


def shown(app):
    """All that a page shows, charts and pictures included."""
    texts = [element.value for element in [*app.markdown, *app.caption, *app.latex]]
    texts += [element.proto.body for element in app.get("html")]
    return "\n".join([*texts, *(chart.proto.spec for chart in app.get("plotly_chart"))])


@pytest.mark.parametrize(
    ("slug", "query", "answers"),
    [
        ("after", {}, ["weight of each part", "\\mathrm{lse} = ", "the weights add up to"]),
        ("after", {"after_topic": "FlashAttention-3"}, ["the limit is set by", "overlapped"]),
        ("after", {"after_topic": "FlashAttention-4"}, ["the limit is set by", "overlapped"]),
        ("gradients", {}, [">0.24<"]),
        ("kernel", {}, ["counts e^(0.535 − 1.12)"]),
    ],
    ids=str,
)
def test_an_answer_is_nowhere_on_the_page_until_it_is_given_or_shown(slug, query, answers):
    app = open_chapter(slug, **query)
    assert not [answer for answer in answers if answer in shown(app)]
    next(button for button in app.button if button.label == "Show").click().run()
    assert not app.exception
    assert [answer for answer in answers if answer in shown(app)] == answers
    asked_again = open_chapter(slug, **query)  # another reader
    assert not [answer for answer in answers if answer in shown(asked_again)]


def test_who_gives_up_a_choice_sees_its_answer_and_may_still_choose():
    app = open_chapter("memory")
    assert "33.6 MB" not in "".join(info.value for info in app.info)
    next(button for button in app.button if button.label == "Show").click().run()
    assert SPECK in app.info[0].value
    assert not any(button.label == "Show" for button in app.button)
    app.radio[0].set_value(SPECK).run()
    assert app.success
    assert not app.info
