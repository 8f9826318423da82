"""A link whose values no widget takes: the page shows its defaults, and says so once."""

import re

import pytest
from streamlit.util import calc_hash

from tests import ROOT
from tests.app.pages import open_page
from viz.shared import runs
from viz.shared.formats import plain
from viz.shared.link import LINK
from viz.shared.options import kernel_labels, named_kernels


def toasts(app):
    assert not app.exception
    return [toast.value.replace("\\", "") for toast in app.toast]


PICTURE = "![x](http://a.b)"
WRONG = {
    "measure": [
        ({"hd": "7"}, ["hd=7", "64"]),
        ({"which": PICTURE}, ["which=![x]", "forward"]),
        ({"from": "book"}, ["from=book", "recorded, measured"]),
        ({"peers": ["ours", "nope"]}, ["peers=nope", "Using ours"]),
        ({"seqs": "inf"}, ["seqs=inf", "Using 1"]),
        ({"head_dim": "128", "foo": "inf"}, ["head_dim=128, foo=inf", "not used", "which, axis"]),
    ],
    "check": [
        ({"kernel": "mine"}, ["kernel=mine", "flash_attention"]),
        ({"versus": PICTURE}, ["versus=![x]", "not used", "kernel, gradients"]),
        ({"view": "battery"}, []),
    ],
    "learn": [
        ({"chapter": "roofline"}, []),
        ({"roofline_others": "perhaps"}, ["others=perhaps", "False"]),
        ({"chapters": PICTURE}, ["chapters=![x]", "not used", "chapter, memory_"]),
    ],
    "model": [
        ({"model": "gpt5"}, ["model=gpt5", "llama3_8b"]),
        ({"tokens": "0"}, ["tokens=0", "from 1 to 1,048,576", "8192"]),
        ({"length": PICTURE}, ["length=![x]", "not used", "model, tokens"]),
    ],
    "talk": [({"name": PICTURE}, None), ({"talk": "mine"}, ["talk=mine", "not used", "name, speaker"])],
    "": [
        ({"q_len": "-5"}, ["q_len=-5", "from 1 to 1,048,576", "Using 1024"]),
        ({"mask": PICTURE}, ["mask=![x]", "one of full, causal, window", "causal"]),
        ({"block_m": "7"}, ["block_m=7", "4, 8, 16, 32, 64, 128", "64"]),
        ({"versus": "flash9"}, ["versus=flash9", "flash1", "none"]),
        ({"algorithm": "<script>"}, ["algorithm=<script>", "flash1", "Using flash2"]),
        ({"step": "abc"}, ["step=abc", "such as 37"]),
        ({"row": "9999"}, ["row=9999", "0.20"]),
        ({"unit": "foo"}, ["unit=foo", "tile, phase or program"]),
        ({"open": "all"}, ["open=all", "tile"]),
    ],
}
"""By page: what its link may have that it does not take, and words of the message about it. No words for what
it takes; None if the page itself says what is wrong."""


@pytest.mark.parametrize("page", WRONG)
def test_what_is_not_taken_is_said_once_with_what_is_used_and_makes_no_picture(own_store, page):
    assert runs.run_store().client.wait_ready(60)  # before that, Check checks nothing
    app = open_page(page, **{name: value for query, _ in WRONG[page] for name, value in query.items()})
    said, wanted = toasts(app), [words for _, words in WRONG[page] if words]
    for words in wanted:
        assert [text for text in said if all(each in text for each in words)], (words, said)
    assert len(said) == len(wanted)
    kinds = (app.error, app.warning, app.info, app.toast, app.markdown, app.caption)
    shown = [element.value for kind in kinds for element in kind]
    assert not [words for words in shown if PICTURE in words]
    assert any(plain(PICTURE) in words for words in shown)
    assert toasts(app.run()) == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"algorithm": "flash2", "step": "99999", "row": "0.9999"}, ["0 to 136", "0.0 to 0.1023"]),
        ({"step": "0.99"}, ["0.1 to 0."]),
        ({"algorithm": "flash2", "step": "136.P"}, ["0 to 136"]),
        ({"versus": "flash1", "place": "bytes:9999"}, ["bytes:0 to bytes:1000"]),
        ({f"n{n}": "1" for n in range(30)}, ["n0=1, n1=1, n2=1"]),
    ],
    ids=["beyond", "phase", "weights", "race", "many"],
)
def test_a_place_outside_of_the_run_is_said_with_the_places_that_there_are(query, words):
    said = toasts(open_page(**query))
    assert len(said) == len(words)
    assert all(each in text for each, text in zip(words, said, strict=True))


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("measure", {"which": "both", "chart": "TFLOP/s", "peers": ["ours", "fa4"]}),
        ("check", {"view": "battery", "repeats": "2", "gradients": "false", "kernel": "flash2"}),
        ("", {"mask": "causal", "step": "3.1", "row": "0.20", "unit": "phase", "open": "tile", "batch": "1"}),
    ],
)
def test_values_that_are_taken_and_defaults_are_not(page, query):
    assert toasts(open_page(page, **query)) == []


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("explore", {"algorithm": "flash2"}),
        *((page, {}) for page in ("learn", "measure", "check", "talk", "model")),
        *(("measure", {"axis": axis, "load": "batch"}) for axis in ("batch", "head_dim")),
        ("check", {"view": "battery"}),
    ],
)
def test_every_name_that_a_page_reads_from_its_url_is_one_that_it_says_it_takes(page, query):
    """The names are those of the widgets that it draws, and those that its sources spell out."""
    app = open_page("" if page == "explore" else page, **query)
    assert not app.exception
    knows = app.session_state[LINK].knows
    read = set().union(*(names_read(file) for file in (ROOT / "viz" / page).glob("*.py")), names_drawn(app))
    assert {name for name in read if not knows(name)} == set()
    assert not knows("nonsense")
    assert page not in ("explore", "measure", "check") or len(names_drawn(app)) > 5


def names_drawn(app):
    """Names in the URL of the widgets that are drawn."""
    nodes = [app.main, app.sidebar]
    for node in nodes:  # grows meanwhile
        nodes += getattr(node, "children", {}).values()
    return {getattr(getattr(node, "proto", None), "query_param_key", "") for node in nodes} - {""}


def names_read(file):
    """Names in the URL that a source has as literals."""
    found = re.findall(r'query_params(?:\.\w+\(|\[)\s*"(\w+)"|key="(\w+)",\s*bind=', file.read_text())
    return {name for names in found for name in names if name}


def test_what_a_preset_writes_into_the_url_is_not_a_link():
    app = open_page(algorithm="flash2")
    app.selectbox(key="preset").set_value("decode").run()
    assert toasts(app) == []


def test_a_value_that_waits_on_one_page_is_not_judged_on_another():
    app = open_page(repeats="7")
    app._page_hash = calc_hash("check")
    app.query_params.clear()
    assert toasts(app.run()) == []


def test_a_page_that_is_opened_again_by_another_link_says_it_again():
    app = open_page("measure", hd="7")
    for page, hd in (("learn", None), ("measure", "9")):
        app._page_hash = calc_hash(page)
        if hd:
            app.query_params["hd"] = hd
        app.run()
    (said,) = toasts(app)
    assert said.startswith("hd=9")


def test_a_kernel_of_the_users_is_called_by_its_label(monkeypatch):
    buggy = f"{ROOT / 'examples' / 'buggy_kernel.py'}:attention"
    monkeypatch.setattr("sys.argv", ["app.py", "--kernel", buggy])
    (label,) = kernel_labels(named_kernels()).values()
    assert toasts(open_page("check", kernel=label)) == []
