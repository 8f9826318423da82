"""The picture of the five ideas: a box each, an arrow for each need, and marks that do not need colour."""

from viz.learn.ideas.maths import NEEDS
from viz.learn.ideas.page import ARROWS, PLACES, WORDS

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
