"""Predictions: nothing is given away, a slip is named, and the answer is what the page computes."""

import math
import re

import pytest

from tests.app.pages import open_chapter, words
from tests.viz.learn.shown import everything, html
from viz.learn.memory.page import SPECK
from viz.learn.predict import NOT_RESCALED

pytestmark = pytest.mark.usefixtures("no_worker")


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
    y = math.exp(-2) * float(given[1]) + 1 * 3 + math.exp(-4) * 4  # the scores 5 and 1, the values 3 and 4
    assert NOT_RESCALED in type_and_check(app, m=5.0, α=0.135, l=2.386, Y=y)
    said = type_and_check(app, l=1.203)
    assert "0.1353" in said
    assert "red-badge" not in said


def test_a_weight_from_its_score_and_lse():
    app = open_chapter("gradients")
    asked = next(markdown.value for markdown in app.markdown if "its weight in P" in markdown.value)
    score, lse = (float(part.split("**")[0].replace("−", "-")) for part in asked.split("is **")[1:])
    before = html(app)
    assert "not subtracted" in type_and_check(app, P=math.exp(score))
    assert "P = e^(" in type_and_check(app, P=math.exp(score - lse))
    assert html(app) != before  # the weight is now in the picture


def test_a_choice_is_answered_with_the_reason_also_for_who_gave_up():
    app = open_chapter("memory")
    next(button for button in app.button if button.label == "Show").click().run()
    assert SPECK in app.info[0].value
    assert not app.success
    app.radio[0].set_value("all of S").run()
    assert SPECK in app.error[0].value
    app.radio[0].set_value(SPECK).run()
    assert "134 MB" in app.success[0].value
    app.selectbox(key="memory_n").set_value(512).run()
    assert not app.success  # another N is another question


@pytest.mark.parametrize(
    ("topic", "answer"), [("FlashAttention-3", "2,048"), ("FlashAttention-4", "half as many")]
)
def test_overlap_is_predicted_from_the_clocks_of_the_units(topic, answer):
    """4 128^2 d FLOP at 4096 per clock, twice that on the B200; 128^2 exponentials at 16; d is 128."""
    app = open_chapter("after", after_topic=topic)
    (question,) = (radio for radio in app.radio if answer in radio.options)
    question.set_value(answer).run()
    assert app.success
    assert not app.error


@pytest.mark.parametrize(
    ("slug", "query", "answers"),
    [
        ("after", {}, ["\\mathrm{lse} = ", "the weights add up to"]),
        ("after", {"after_topic": "FlashAttention-3"}, ["**Overlapped**"]),
        ("gradients", {}, [">0.24<"]),
        ("kernel", {}, ["e^(0.535 − 1.12)"]),
    ],
    ids=str,
)
def test_an_answer_is_nowhere_on_the_page_until_it_is_given_or_shown(slug, query, answers):
    app = open_chapter(slug, **query)
    assert not [answer for answer in answers if answer in everything(app)]
    next(button for button in app.button if button.label == "Show").click().run()
    assert not app.exception
    assert [answer for answer in answers if answer in everything(app)] == answers
