"""The Tiles chapter: the reader's matrices, and whatever else a reader may enter."""

import pytest

from tests.app.pages import open_chapter, words
from tests.viz.learn.shown import errors, formulas, html, links
from viz.shared.formats import plain

pytestmark = pytest.mark.usefixtures("no_worker")
SOFTMAX = "Softmax in between"


def test_the_product_in_tiles_step_by_step():
    app = open_chapter("tiling", tiling_step=1)
    assert app.slider(key="tiling_step").max == 8
    assert [metric.value for metric in app.metric] == ["8"]  # the other one is to be predicted first
    assert "64" in app.metric[0].delta
    app.radio[0].set_value("128").run()
    assert [metric.value for metric in app.metric] == ["8", "128"]
    assert r"C_{00} = \boldsymbol{A_{00} B_{00}} + A_{01} B_{10}" in formulas(app)
    app.button(key="tiling_step_Last").click().run()
    assert app.metric[0].value == "64"
    app.number_input(key="tiling_tile").set_value(4).run()
    assert not errors(app)  # one step only, and no slider
    assert not [slider for slider in app.slider if slider.key == "tiling_step"]


def test_softmax_breaks_the_sum_and_the_running_max_mends_it():
    app = open_chapter("tiling", tiling_part=SOFTMAX, tiling_step=2)
    assert not errors(app)  # to be predicted first
    app.radio[0].set_value("2").run()
    assert (len(errors(app)), 'class="bad' in html(app)) == (1, True)
    app.segmented_control(key="tiling_join").set_value("running max and sum").run()
    assert (len(errors(app)), 'class="bad' in html(app)) == (0, False)


def test_the_readers_own_matrices():
    given = {"tiling_q": "1 2; 3 4; 5 6", "tiling_k": "1 0; 0 1", "tiling_v": "2 1 5; 3 1 4"}
    app = open_chapter("tiling", tiling_part="Attention without softmax", tiling_tile=1, **given)
    assert not errors(app)
    assert app.slider(key="tiling_step").max == 6
    assert links(app)[0]["q_len"] == "12"
    # what is held at once: Q and O of a query tile, the larger of K and V, and a tile of S
    assert "9 numbers are on the chip" in words(app)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("tiling_a", "1 2; 3", "A: “1 2; 3” is not accepted"),
        ("tiling_b", "1 2; 3 4", "A has 4 columns and B has 2 rows"),
    ],
)
def test_a_text_that_is_not_a_matrix_is_explained_and_kept(key, text, message):
    app = open_chapter("tiling")
    app.text_input(key=key).set_value(text).run()
    assert plain(message) in errors(app)[0]
    assert app.text_input(key=key).value == text
