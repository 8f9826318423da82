"""The picture of the five ideas: a box each, an arrow for each need, and marks that do not need colour."""

import pytest

from viz.learn.ideas.figures import ARROWS, PLACES, Box, idea_map_html
from viz.learn.ideas.maths import NEEDS
from viz.learn.ideas.page import WORDS

BECAUSE = [(idea, need, f"why {need}") for idea, needs in NEEDS.items() for need in needs]


def test_every_idea_has_a_place_and_words_and_every_need_an_arrow_and_a_reason():
    boxes, arrows = (
        [line.split(" | ") for line in WORDS.sections[name].removeprefix("| ").split("\n| ")]
        for name in ("boxes", "arrows")
    )
    assert set(PLACES) == set(NEEDS)
    assert [name for name, *_ in boxes] == list(NEEDS)
    needs = {(idea, need) for idea, need, _ in BECAUSE}
    assert needs == set(ARROWS) == {(idea, need) for idea, need, _ in arrows}


@pytest.mark.parametrize(
    ("states", "broken", "moot"),
    [({"lse": "out", "recomputation": "falls", "fusion": "falls"}, 2, 0), ({"tiling": "out"}, 0, 2)],
)
def test_left_out_and_fallen_are_said_in_words(states, broken, moot):
    html = idea_map_html([Box(name, "does", "12 MB", states.get(name, "stands")) for name in NEEDS], BECAUSE)
    assert html.count("<section") == 5
    for state in ("out", "falls"):
        assert html.count(f'class="{state}"') == list(states.values()).count(state)
    assert (html.count("✕"), html.count(" moot")) == (broken, moot)
    assert "why tiling" in html
