"""The chapters Five ideas, Softmax and Tiles: the reader's numbers, and whatever else a reader may enter."""

from urllib.parse import parse_qs

import pytest

from kernels.problem import AttentionProblem
from tests.app.pages import open_chapter
from viz.shared import runs
from viz.shared.formats import plain

ONE_PASS, NO_RESCALE, PASSES = "One pass", "Just add", "Three passes, two, one"


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    """These chapters need no worker, so the tests do not wait for one."""
    monkeypatch.setattr(runs, "run_store", lambda: None)


def html(app):
    return " ".join(element.proto.body for element in app.get("html"))


def formulas(app):
    return " ".join(element.value for element in app.latex)


def links(app):
    """The URL parameters of each link to Explore."""
    return [
        {name: values[0] for name, values in parse_qs(link.proto.query_string).items()}
        for link in app.get("page_link")
        if "algorithm=" in link.proto.query_string
    ]


def metrics(app):
    return {metric.label: (metric.value, metric.delta) for metric in app.metric}


def errors(app):
    assert not app.exception
    return [error.value for error in app.error]


def test_all_five_stand_with_the_readers_numbers():
    app = open_chapter("ideas")
    assert not errors(app)
    assert html(app).count("<section") == 5
    assert "falls</em>" not in html(app)
    assert metrics(app)["Requested, forward"] == ("8.92 MB", "standard 42.5 MB")
    app.number_input(key="ideas_n").set_value(1024).run()
    assert metrics(app)["Requested, forward"] == ("2.36 MB", "standard 10.7 MB")
    assert "of 1,024 keys" in html(app)
    assert [link["algorithm"] for link in links(app)] == ["flash2", "standard", "backward"]
    assert all(link["q_len"] == link["kv_len"] == "1024" and link["block_m"] == "128" for link in links(app))


@pytest.mark.parametrize(
    ("left_out", "fallen"),
    [("fusion", 0), ("tiling", 1), ("online softmax", 2), ("recomputation", 1), ("lse", 2)],
)
def test_leaving_one_out_shows_what_falls(left_out, fallen):
    app = open_chapter("ideas", ideas_show=f"without {left_out}")
    assert not errors(app)
    assert html(app).count(">left out<") == 1
    assert html(app).count(">falls<") == fallen


def test_the_cards_do_not_claim_what_the_picture_strikes_out():
    kept = {}
    for left_out in ("online softmax", "recomputation", "lse", "tiling", "fusion"):
        app = open_chapter("ideas", ideas_show=f"without {left_out}")
        kept[left_out] = {label: value for label, (value, _) in metrics(app).items()}
    for left_out in ("recomputation", "lse"):
        assert kept[left_out]["Kept for backward"] == "8.39 MB"
        assert kept[left_out]["Products, backward"] == "2.15 GFLOP"
    assert kept["online softmax"]["Kept for backward"] == kept["tiling"]["Kept for backward"] == "8.19 kB"
    for left_out in ("online softmax", "tiling", "fusion"):
        assert kept[left_out]["Requested, forward"] == "42.5 MB"
        assert kept[left_out]["Needed on the chip"] == "72 KiB"  # of the same three kernels
    assert 'class="idle"' in html(open_chapter("ideas", ideas_show="without recomputation"))


def test_the_chip_is_named_by_its_memories():
    app = open_chapter("ideas", ideas_gpu="A100")
    assert "of 163 KiB shared memory" in html(app)
    assert "of 256 KiB registers" in html(app)
    assert metrics(app)["Needed on the chip"] == (
        "97 KiB",
        "a program can have 163 KiB shared memory, 256 KiB registers",
    )


def test_approximations_are_set_beside_exact_attention():
    app = open_chapter("ideas", ideas_n=512)
    table = next(markdown.value for markdown in app.markdown if "Linformer" in markdown.value)
    errors_of = {line.split("**")[1]: float(line.split("|")[-2]) for line in table.splitlines()[2:]}
    assert errors_of["exact attention"] < 1e-14
    assert all(errors_of[name] > 1e-3 for name in ("Linformer", "Performer", "Longformer"))


def test_without_online_softmax_the_weights_sum_to_the_number_of_tiles():
    app = open_chapter("ideas", ideas_show="without online softmax", ideas_n=512, ideas_block_n=32)
    assert metrics(app)["Weights of a row sum to"][0] == "16"


def test_short_rows_need_no_tiling():
    app = open_chapter("ideas", ideas_show="without tiling", ideas_n=512)
    assert ">falls<" not in html(app)
    assert any("one kernel can do without tiles" in markdown.value for markdown in app.markdown)


@pytest.mark.parametrize(
    "query",
    [
        {"ideas_n": "x"},
        {"ideas_n": -5},
        {"ideas_n": 10**12},
        {"ideas_d": 1},
        {"ideas_block_m": 7},
        {"ideas_gpu": "Z80"},
        {"ideas_show": "?"},
    ],
)
def test_a_url_may_hold_anything(query):
    app = open_chapter("ideas", **query)
    assert not app.exception
    assert html(app).count("<section") == 5


def test_overflow_of_large_scores_is_one_click_away():
    app = open_chapter("softmax")
    assert not errors(app)
    assert len(app.success) == 2
    next(button for button in app.button if button.label == "[1000, 999, 995]").click().run()
    assert app.text_input(key="softmax_x").value == "1000, 999, 995"
    assert errors(app) == ["Fails in float32, the sum is ∞."]
    assert "1.375" in app.success[0].value


def test_stepping_through_the_blocks():
    app = open_chapter("softmax", softmax_part=ONE_PASS, softmax_block=1, softmax_step=1)
    assert r"\max(-\infty,\, 3) = 3" in formulas(app)
    app.button(key="softmax_step_Forward").click().run()
    app.button(key="softmax_step_Forward").click().run()
    assert app.slider(key="softmax_step").value == 3
    assert r"e^{3 - 5} \approx 0.1353" in formulas(app)
    assert r"\approx 1.185" in formulas(app)
    app.button(key="softmax_step_Last").click().run()
    assert "Largest difference" in app.success[0].value
    app.button(key="softmax_step_Back").click().run()
    assert app.slider(key="softmax_step").value == 3
    app.number_input(key="softmax_block").set_value(2).run()
    assert app.slider(key="softmax_step").value == 2  # there are two blocks now
    assert not errors(app)


def test_the_wrong_update_shows_its_wrong_numbers():
    app = open_chapter("softmax", softmax_part=NO_RESCALE, softmax_block=1, softmax_step=3)
    assert r"1.368 + 1 \approx 2.368" in formulas(app)
    assert r"0.1353 \cdot 1.368 + 1 \approx 1.185" in formulas(app)
    assert not errors(app)  # the weights are known after the last block
    app.button(key="softmax_step_Forward").click().run()
    assert "weighs **" in errors(app)[0]
    app.text_input(key="softmax_x").set_value("5, 3, 2, 1").run()
    assert not errors(app)
    assert "No harm on this row" in app.info[-1].value


def test_passes_count_their_reads():
    app = open_chapter("softmax", softmax_part=PASSES, softmax_reads=6)
    assert [f"blocks, {count} scores<" in html(app) for count in (12, 8, 4)] == [True] * 3
    assert html(app).count("o = 2.749") == 3


@pytest.mark.parametrize("part", ["Subtract the max", ONE_PASS, NO_RESCALE, PASSES])
@pytest.mark.parametrize(
    "text", ["7", "-1e6 1e6", "0 0 0", " ".join(map(str, range(64))), "65504, 65505, -65504"]
)
def test_any_numbers_are_drawn(part, text):
    app = open_chapter("softmax", softmax_part=part, softmax_x=text, softmax_block=3)
    assert not app.exception
    assert app.get("plotly_chart") or app.get("html")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "No number given"),
        ("abc", "“abc” is not a number"),
        ("1, inf", "finite numbers"),
        ("1," * 10_000, "10,000 numbers given"),
        ("<script>", "“<script>” is not a number"),
    ],
)
def test_a_text_that_is_not_a_row_is_explained_and_kept(text, message):
    app = open_chapter("softmax", softmax_x="1, 2")
    app.text_input(key="softmax_x").set_value(text).run()
    assert plain(message) in errors(app)[0]
    assert app.text_input(key="softmax_x").value == text


@pytest.mark.parametrize(
    "query",
    [
        {"softmax_step": 99},
        {"softmax_step": "x"},
        {"softmax_block": 0},
        {"softmax_block": 10**9},
        {"softmax_part": "?"},
    ],
)
def test_a_url_of_the_softmax_chapter_may_hold_anything(query):
    app = open_chapter("softmax", **{"softmax_part": ONE_PASS} | query)
    assert not errors(app)


def test_links_open_explore_with_as_many_tiles_and_the_same_kind_of_max():
    grows = links(open_chapter("softmax", softmax_x="1 2 3 4 5 6", softmax_block=2))[0]
    assert (grows["kv_len"], grows["block_n"], grows["inputs"]) == ("12", "4", "growing_max")
    assert links(open_chapter("softmax", softmax_x="6 5 4 3"))[0]["inputs"] == "falling_max"


def test_the_product_in_tiles_step_by_step():
    app = open_chapter("tiling", tiling_step=1)
    assert app.slider(key="tiling_step").max == 8
    assert metrics(app)["Numbers read so far"] == ("8", "of 64 in tiles of 2 × 2")
    assert "Element by element" not in metrics(app)  # to be predicted first
    app.radio[0].set_value("128").run()
    assert "Right." in app.success[0].value
    assert metrics(app)["Element by element"][0] == "128"
    assert r"C_{00} = \boldsymbol{A_{00} B_{00}} + A_{01} B_{10}" in formulas(app)
    app.button(key="tiling_step_Last").click().run()
    assert metrics(app)["Numbers read so far"][0] == "64"
    app.number_input(key="tiling_tile").set_value(4).run()
    assert not errors(app)  # one step only, and no slider
    assert any("choose fewer rows per tile" in caption.value for caption in app.caption)


def test_softmax_breaks_the_sum_and_the_running_max_mends_it():
    app = open_chapter("tiling", tiling_part="Softmax in between")
    assert not errors(app)  # to be predicted first
    app.button(key="tiling_step_Forward").click().run()
    assert not errors(app)
    app.radio[0].set_value("2").run()
    assert "add up to 2" in errors(app)[0]
    assert 'class="bad' in html(app)
    app.segmented_control(key="tiling_join").set_value("running max and sum").run()
    assert not errors(app)
    assert 'class="bad' not in html(app)
    assert "end O differs from the softmax computed without tiles by" in app.success[0].value


def test_the_readers_own_matrices():
    app = open_chapter(
        "tiling",
        tiling_part="Attention without softmax",
        tiling_q="1 2; 3 4; 5 6",
        tiling_k="1 0; 0 1",
        tiling_v="2; 3",
        tiling_tile=1,
    )
    assert not errors(app)
    assert app.slider(key="tiling_step").max == 6
    assert links(app)[0]["q_len"] == "12"


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("tiling_a", "", "A is empty"),
        ("tiling_a", "1 2; 3", "A: row 0 has length 2 and row 1 has length 1"),
        ("tiling_b", "a b; c d", "B: “a” is not a number"),
        ("tiling_b", "1 2; 3 4", "A has 4 columns and B has 2 rows"),
        ("tiling_b", "1 " * 10_000, "10,000 numbers given"),
    ],
)
def test_a_text_that_is_not_a_matrix_is_explained_and_kept(key, text, message):
    app = open_chapter("tiling")
    app.text_input(key=key).set_value(text).run()
    assert plain(message) in errors(app)[0]
    assert app.text_input(key=key).value == text


def test_the_links_of_all_three_chapters_name_a_problem_that_kernels_take():
    for slug in ("ideas", "softmax", "tiling", "memory", "kernel"):
        for link in links(open_chapter(slug)):
            known = AttentionProblem().as_dict()
            AttentionProblem(
                **{name: type(known[name])(value) for name, value in link.items() if name in known}
            )


def test_switching_chapters_raises_nothing():
    app = open_chapter("softmax", softmax_x="9, 8, 7", tiling_step=8)
    for slug in ("tiling", "ideas", "softmax"):
        app.segmented_control(key="chapter").set_value(slug).run()
        assert not errors(app)


def test_the_readers_values_are_added_up_block_by_block():
    app = open_chapter("softmax", softmax_part=ONE_PASS, softmax_v="4, 0, 1, 2", softmax_step=2)
    assert r"0.1353 \cdot 4 + 1.037 \approx 1.578" in formulas(app)
    assert r"o &= Y' / l' \approx 1.578 / 1.203 \approx 1.311" in formulas(app)
    app = open_chapter("softmax", softmax_part=PASSES, softmax_v="4, 0, 1, 2", softmax_reads=6)
    assert html(app).count("o = 1.311") == 3


@pytest.mark.parametrize(
    ("text", "message"), [("1, 2", "2 values given for 4 scores"), ("x", "Values: “x” is not a number")]
)
def test_values_that_do_not_fit_are_explained(text, message):
    assert message in errors(open_chapter("softmax", softmax_v=text))[0]


def test_dividing_once_at_the_end_is_counted_on_the_readers_matrices():
    app = open_chapter("tiling", tiling_part="Softmax in between", tiling_tile=1)
    texts = [markdown.value for markdown in app.markdown]
    table = next(text for text in texts if "outside the products" in text)
    each, last = (int(cell.strip(" *").replace(",", "")) for cell in table.splitlines()[-1].split("|")[2:4])
    assert last < each
    assert any(f"{each / last:.1f}× fewer than at every tile" in text for text in texts)


def test_another_part_starts_at_its_first_step():
    app = open_chapter("softmax", softmax_part=NO_RESCALE, softmax_block=1, softmax_step=3)
    assert app.slider(key="softmax_step").value == 3
    next(button for button in app.button if button.label.startswith("Go on")).click().run()
    assert app.segmented_control(key="softmax_part").value == ONE_PASS
    assert app.slider(key="softmax_step").value == 1
    app.button(key="softmax_step_Forward").click().run()
    assert app.slider(key="softmax_step").value == 2


def test_a_block_far_below_the_max_keeps_its_largest_score():
    app = open_chapter("softmax", softmax_part=ONE_PASS, softmax_x="1000, 0", softmax_block=1, softmax_step=2)
    assert not errors(app)
    assert r"\max(1000,\, 0) = 1000" in formulas(app)


def test_what_is_held_at_once_counts_the_larger_of_k_and_v():
    given = {"tiling_q": "1 2; 3 4", "tiling_k": "1 0; 0 1", "tiling_v": "2 1 5; 3 1 4", "tiling_tile": 1}
    app = open_chapter("tiling", tiling_part="Attention without softmax", **given)
    assert not errors(app)
    assert any("2 + 3 + 3 + 1 = 9 numbers" in caption.value for caption in app.caption)
