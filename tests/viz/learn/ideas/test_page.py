"""The Five ideas chapter: the cards and the picture say the same on the reader's shape."""

import re

import pytest

from tests.app.pages import open_chapter
from tests.viz.learn.shown import errors, html, links, metrics
from viz.learn.ideas.page import WORDS

pytestmark = pytest.mark.usefixtures("no_worker")


def test_all_five_stand_with_the_readers_numbers():
    app = open_chapter("ideas", ideas_gpu="A100", ideas_n=2048)
    assert not errors(app)
    assert html(app).count("<section") == 5
    assert "falls</em>" not in html(app)
    assert "fusion needs tiling" not in html(app)  # rows of this length fit whole
    assert "fusion needs tiling" in html(open_chapter("ideas"))
    (moved, beside), (chip, room), *_ = metrics(app).values()
    assert (moved, beside[-7:], chip) == ("8.92 MB", "42.5 MB", "97 KiB")
    assert re.findall(r"\d+ KiB", room) == ["163 KiB", "256 KiB"]
    app.number_input(key="ideas_n").set_value(1024).run()
    moved, beside = next(iter(metrics(app).values()))
    assert (moved, beside[-7:]) == ("2.36 MB", "10.7 MB")
    assert "of 1,024 keys" in html(app)
    assert [link["algorithm"] for link in links(app)] == ["flash2", "standard", "backward"]
    assert all(link["q_len"] == link["kv_len"] == "1024" and link["block_m"] == "128" for link in links(app))


@pytest.mark.parametrize(
    ("left_out", "fallen", "forward", "chip", "kept"),
    [
        ("fusion", 0, "42.5 MB", "72 KiB", "8.19 kB"),
        ("tiling", 0, "34.1 MB", "284.2 KiB", "8.19 kB"),
        ("online softmax", 1, "34.1 MB", "284.2 KiB", "8.19 kB"),
        ("recomputation", 1, "21.5 MB", "97 KiB", "8.39 MB"),
        ("lse", 2, "21.5 MB", "97 KiB", "8.39 MB"),
    ],
)
def test_leaving_one_out_shows_what_falls_and_what_exact_attention_then_costs(
    left_out, fallen, forward, chip, kept
):
    app = open_chapter("ideas", ideas_show=f"without {left_out}", ideas_n=2048)
    assert not errors(app)
    assert (html(app).count(">left out<"), html(app).count(">falls<")) == (1, fallen)
    cards = {label: value for label, (value, _) in metrics(app).items()}
    assert (cards["Requested, forward"], cards["Needed on the chip"]) == (forward, chip)
    assert cards["Kept for backward"] == kept
    assert ('class="idle"' in html(app)) is (left_out in ("fusion", "tiling", "recomputation"))
    assert (cards["Weights of a row sum to"] == "32") is (left_out == "online softmax")


def test_in_one_tile_the_online_softmax_is_not_missed():
    app = open_chapter("ideas", ideas_show="without online softmax", ideas_n=64)
    assert any(WORDS("one tile") in text.value for text in app.markdown)
    assert metrics(app)["Weights of a row sum to"][0] == "1"
    app.number_input(key="ideas_n").set_value(128).run()
    assert not any(WORDS("one tile") in text.value for text in app.markdown)
