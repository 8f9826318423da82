"""The picture of the five ideas: a box each, an arrow for each need, and marks that do not need colour."""

from viz.learn.ideas.figures import ARROWS, PLACES, Box, idea_map_html
from viz.learn.ideas.maths import NEEDS

BECAUSE = {(idea, need): f"why {need}" for idea, needs in NEEDS.items() for need in needs}


def test_every_idea_has_a_place_and_every_need_an_arrow():
    assert set(PLACES) == set(NEEDS)
    assert set(ARROWS) == set(BECAUSE)


def test_left_out_and_fallen_are_said_in_words():
    states = {"lse": "out", "recomputation": "falls", "fusion": "falls"}
    html = idea_map_html([Box(name, "does", "12 MB", states.get(name, "stands")) for name in NEEDS], BECAUSE)
    assert html.count("<section") == 5
    assert (html.count('class="out"'), html.count('class="falls"')) == (1, 2)
    assert html.count("✕") == 2  # lse is needed by recomputation, and that by fusion
    assert "why tiling" in html
    without_tiling = [Box(name, "", "", "out" if name == "tiling" else "stands") for name in NEEDS]
    html_without = idea_map_html(without_tiling, BECAUSE)
    arrows = html_without.count("moot") - html.count("moot")
    assert arrows == 2  # to and from tiling
