"""The path through Learn: each chapter asks, shows the way on, and is found by its old links."""

import re
from urllib.parse import parse_qs

import pytest

from tests.app.pages import open_chapter, open_page
from viz.learn.chapters import CHAPTERS, OLD_SLUGS, follow_old_link
from viz.shared import runs
from viz.shared.glossary import BY_NAME, SECTIONS

SLUGS = [chapter.slug for chapter in CHAPTERS]


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    monkeypatch.setattr(runs, "run_store", lambda: None)


@pytest.mark.parametrize("slug", SLUGS)
def test_a_chapter_opens_with_its_question_and_links_to_its_neighbours(slug):
    app = open_chapter(slug)
    assert not app.exception
    place = SLUGS.index(slug)
    assert app.subheader[0].value == CHAPTERS[place].question
    assert CHAPTERS[place].question.endswith("?")
    neighbours = [place + step for step in (-1, 1) if 0 <= place + step < len(SLUGS)]
    ways = [button for button in app.button if (button.key or "").startswith("chapter_")]
    assert [way.label.split(". ")[0] for way in ways] == [
        f"{'Back' if other < place else 'Next'}: {other + 1} {CHAPTERS[other].title}" for other in neighbours
    ]
    ways[-1].click().run()
    assert app.segmented_control(key="chapter").value == SLUGS[neighbours[-1]]
    assert not app.exception


@pytest.mark.parametrize("slug", SLUGS[:-1])
def test_every_chapter_but_the_sources_has_something_to_predict(slug):
    app = open_chapter(slug, **({"softmax_part": "One pass"} if slug == "softmax" else {}))
    assert any(markdown.value.startswith("**Predict.**") for markdown in app.markdown)


def test_the_landing_page_leads_to_the_first_chapter():
    app = open_page()
    start = next(link.proto for link in app.get("page_link") if link.proto.label == "Start here")
    assert parse_qs(start.query_string) == {"chapter": [SLUGS[0]]}
    assert start.page == "learn"
    assert any("without ever storing the matrix" in markdown.value for markdown in app.markdown)


@pytest.mark.parametrize("old", OLD_SLUGS)
def test_an_old_name_opens_its_chapter(old):
    app = open_chapter(old)
    assert app.segmented_control(key="chapter").value == OLD_SLUGS[old]


def test_a_view_that_moved_is_followed_there():
    app = open_chapter("io", io_view="Backward")
    assert app.segmented_control(key="chapter").value == "gradients"
    assert app.segmented_control(key="gradients_view").value == "Traffic"
    app = open_chapter("roofline", roofline_view="Memory")
    assert app.segmented_control(key="chapter").value == "memory"
    app = open_chapter("softmax", softmax_part="Without the rescale")
    assert app.segmented_control(key="softmax_part").value == "Just add"
    app = open_chapter("io", io_view="Growth", io_axis="against M")
    assert app.segmented_control(key="io_axis").value == "against SRAM"


def test_an_old_line_of_the_derivation_is_shown_in_its_part():
    app = open_chapter("gradients", gradients_line="dV")
    assert app.segmented_control(key="gradients_view").value == "Line by line"
    assert app.segmented_control(key="gradients_derivation").value == "dV"
    app.segmented_control(key="gradients_view").select("P from lse").run()
    assert app.segmented_control(key="gradients_view").value == "P from lse"


def test_a_parameter_of_another_chapter_is_left_alone():
    query = {"chapter": "softmax", "io_view": "Backward"}
    follow_old_link(query)
    assert query == {"chapter": "softmax", "io_view": "Backward"}


def glossary(app):
    return "\n".join(each.value for each in app.markdown if ":gray-badge[" in each.value)


def test_all_words_of_the_glossary_are_on_both_pages():
    for app in (open_chapter("memory"), open_page()):
        table = glossary(app)
        assert all(f"**{name}**" in table for name in ("rescale factor", "HBM", "lse", "causal", "TFLOP/s"))


def test_the_way_on_leads_through_the_parts_of_a_chapter_first():
    app = open_chapter("tiling")
    seen = []
    while not app.exception:
        ways = {button.key: button.proto.type for button in app.button}
        seen.append((ways.get("tiling_part_on"), ways["chapter_Next"]))
        if "tiling_part_on" not in ways:
            break
        app.button(key="tiling_part_on").click().run()
    assert seen == [("primary", "secondary"), ("primary", "secondary"), (None, "primary")]


def test_the_list_of_terms_has_headings():
    table = glossary(open_chapter("memory"))
    assert table.count(":gray-badge[") == len(SECTIONS)
    assert sum(f"- **{name}**" in table for name in BY_NAME) == len(BY_NAME)
    assert table.index("[Bytes and speed]") < table.index("- **traffic**")
    assert table.index("- **gradient**") < table.index("[Bytes and speed]")


@pytest.mark.parametrize("chapter", [each for each in CHAPTERS if each.idea], ids=lambda each: each.slug)
def test_the_one_sentence_of_a_chapter_is_one_sentence_in_its_own_words(chapter):
    assert re.findall(r"[.!?](?:\s|$)", chapter.idea) == ["."]
    assert chapter.idea.endswith(".")
    assert "α" not in chapter.idea  # stands under parts that have not met it
