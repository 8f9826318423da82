"""The Softmax chapter: the reader's numbers, and whatever else a reader may enter."""

from tests.app.pages import open_chapter
from tests.viz.learn.shown import errors, formulas, html
from viz.shared.formats import plain

ONE_PASS, JUST_ADD, PASSES = "One pass", "Old sums go wrong", "How often it is read"


def test_overflow_of_large_scores_is_one_click_away_and_in_the_url(no_worker):
    app = open_chapter("softmax")
    assert not errors(app)
    assert len(app.success) == 2
    next(button for button in app.button if button.label == "[1000, 999, 995]").click().run()
    assert app.text_input(key="softmax_x").value == "1000, 999, 995"
    assert app.query_params["softmax_x"] in ("1000, 999, 995", ["1000, 999, 995"])
    assert len(errors(app)) == 1
    assert "1.375" in app.success[0].value
    app.text_input(key="softmax_x").set_value("7, 8").run()
    assert app.query_params["softmax_x"] in ("7, 8", ["7, 8"])


def test_stepping_through_the_blocks(no_worker):
    app = open_chapter("softmax", softmax_part=ONE_PASS, softmax_block=1, softmax_step=1)
    assert r"\max(-\infty,\, 3) = 3" in formulas(app)
    for _ in range(2):
        app.button(key="softmax_step_Forward").click().run()
    assert app.slider(key="softmax_step").value == 3
    assert r"\approx 0.1353" in formulas(app)
    assert r"\approx 1.185" in formulas(app)
    app.button(key="softmax_step_Last").click().run()
    assert app.query_params["softmax_step"] in ("4", ["4"])
    assert float(app.success[0].value.split("at once: ")[1].split(" ")[0]) < 1e-15
    app.number_input(key="softmax_block").set_value(2).run()
    assert app.slider(key="softmax_step").value == 2  # there are two blocks now
    app.button(key="softmax_step_Back").click().run()
    assert "softmax_step" not in app.query_params  # the first step is the default
    assert not errors(app)


def test_the_wrong_update_shows_its_wrong_numbers_and_another_part_starts_at_its_first_step(no_worker):
    app = open_chapter("softmax", softmax_part=JUST_ADD, softmax_block=1, softmax_step=3)
    for total in ("2.368", "1.185"):  # just added, and rescaled
        assert rf"1 \approx {total}" in formulas(app)
    assert not errors(app)  # the weights are known after the last block
    app.button(key="softmax_step_Forward").click().run()
    assert len(errors(app)) == 1
    app.text_input(key="softmax_x").set_value("5, 3, 2, 1").run()
    assert not errors(app)  # the max comes first
    next(button for button in app.button if button.label.startswith("Go on")).click().run()
    assert app.segmented_control(key="softmax_part").value == ONE_PASS
    assert app.slider(key="softmax_step").value == 1


def test_the_readers_values_are_added_up_block_by_block(no_worker):
    app = open_chapter("softmax", softmax_part=ONE_PASS, softmax_v="4, 0, 1, 2", softmax_step=2)
    for value in ("1.578", "1.311"):  # Y and o
        assert rf"\approx {value}" in formulas(app)
    app = open_chapter("softmax", softmax_part=PASSES, softmax_v="4, 0, 1, 2", softmax_reads=6)
    assert html(app).count("o = 1.311") == 3
    assert [f", {count} scores<" in html(app) for count in (12, 8, 4)] == [True] * 3


def test_a_text_that_is_not_a_row_is_explained_and_kept(no_worker):
    app = open_chapter("softmax", softmax_x="1, 2")
    for text, message in (("<script>", "“<script>” is not"), ("", "“” is not")):
        app.text_input(key="softmax_x").set_value(text).run()
        assert plain(message) in errors(app)[0]
        assert app.text_input(key="softmax_x").value == text
    for text in ("1, 2", "x"):
        assert errors(open_chapter("softmax", softmax_v=text))[0].startswith("Values")
