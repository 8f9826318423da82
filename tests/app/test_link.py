"""A link whose values no widget takes: the page shows its defaults, and says so."""

import ast

import pytest
from streamlit.util import calc_hash

from kernels.problem.presets import PRESETS
from tests import ROOT
from tests.app.pages import open_chapter, open_page
from viz.shared import runs
from viz.shared.formats import plain
from viz.shared.link import ASKED, KNOWN
from viz.shared.options import kernel_labels, named_kernels


def toasts(app):
    assert not app.exception
    return [toast.value for toast in app.toast]


@pytest.mark.parametrize(
    ("page", "query", "said"),
    [
        ("measure", {"hd": "77"}, "hd=77 in the link is not accepted. Shown is 64."),
        ("measure", {"which": "sideways"}, "which=sideways in the link is not accepted. Shown is forward."),
        ("measure", {"chart": "heat"}, "chart=heat in the link is not accepted. Shown is time."),
        ("check", {"kernel": "mine"}, "kernel=mine in the link is not accepted. Shown is flash_attention."),
        ("check", {"repeats": "999"}, "repeats=999 in the link is not accepted. Shown is 3."),
        ("measure", {"from": "book"}, "from=book in the link is not accepted. Shown is recorded, measured."),
    ],
)
def test_a_value_that_a_widget_does_not_take_is_named(page, query, said):
    app = open_page(page, **query)
    assert toasts(app) == [said]
    assert toasts(app.run()) == []


@pytest.mark.parametrize(
    ("page", "query"),
    [
        (
            "measure",
            {"hd": "128", "which": "both", "chart": "TFLOP/s", "masking": "causal", "peers": ["ours", "fa4"]},
        ),
        (
            "measure",
            {"hd": "64", "which": "forward", "chart": "time", "masking": "full", "element": "float16"},
        ),
        ("check", {"kernel": "flash2", "repeats": "2", "gradients": "false", "view": "case"}),
        ("check", {"kernel": "flash_attention", "repeats": "3", "gradients": "true", "layout": "contiguous"}),
        ("check", {"view": "grid", "dtypes": ["float16", "bfloat16"], "masks": ["full", "causal"]}),
        ("", {"q_len": "96", "mask": "causal", "algorithm": "flash1", "step": "3", "row": "0.20"}),
        ("", {}),
    ],
)
def test_values_that_are_taken_and_defaults_are_not(page, query):
    assert toasts(open_page(page, **query)) == []


@pytest.mark.parametrize(
    ("page", "query", "begins", "names_one_of"),
    [
        ("", {"preset": "gpt2"}, "preset=gpt2 in the link is not used", "algorithm, batch, q_heads"),
        ("measure", {"head_dim": "128"}, "head_dim=128 in the link is not used", "which, axis"),
        ("check", {"algorithm": "flash2"}, "algorithm=flash2 in the link is not used", "kernel, gradients"),
        ("talk", {"talk": "mine"}, "talk=mine in the link is not used", "name, speaker"),
        ("learn", {"chapters": "io"}, "chapters=io in the link is not used", "chapter, memory_"),
    ],
)
def test_a_name_that_the_page_does_not_know_is_said_once(page, query, begins, names_one_of):
    app = open_page(page, **query)
    (said,) = toasts(app)
    assert said.startswith(plain(begins))
    assert plain(names_one_of) in said
    assert toasts(app.run()) == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"step": "abc"}, "step=abc in the link is not accepted: expected a number of steps such as 37"),
        (
            {"step": "99999"},
            "step=99999 in the link is past the end; the run has 136 steps, expected 0 to 136",
        ),
        ({"step": "0.99"}, "step=0.99 in the link is not a phase of that step; expected 0.1 to 0."),
        ({"row": "9999"}, "row=9999 in the link is not accepted: expected head and row, such as 0.20."),
        ({"row": "0.9999"}, "row=0.9999 in the link is past the end; expected 0.0 to 0.1023."),
        ({"unit": "foo"}, "unit=foo in the link is not accepted: expected tile, phase or program."),
        ({"lanes": "maybe"}, "lanes=maybe in the link is not accepted: expected open."),
        ({"open": "all"}, "open=all in the link is not accepted: expected tile."),
        (
            {"versus": "flash1", "place": "race:9999"},
            "place=race:9999 in the link is past the end; expected race:0 to race:1000.",
        ),
    ],
)
def test_a_state_that_the_player_cannot_have_is_said_once(query, said):
    app = open_page(**query)
    (toast,) = toasts(app)
    assert toast.replace("\\", "").startswith(said)
    assert toasts(app.run()) == []


def test_each_wrong_value_of_a_players_state_is_said():
    assert len(toasts(open_page(step="abc", row="x", unit="foo", lanes="maybe"))) == 4
    assert toasts(open_page(step="12.3", row="0.17", unit="phase", lanes="open", open="tile")) == []


def test_peers_that_do_not_exist_are_named_and_the_others_are_shown():
    (said,) = toasts(open_page("measure", peers=["ours", "nope"]))
    assert said == "peers=nope in the link is not accepted. Shown is ours."
    (said,) = toasts(open_page("measure", peers="nope"))
    assert said.startswith("peers=nope in the link is not accepted. Shown is naive, ours, ")


def test_many_names_that_are_not_known_are_said_at_once():
    (said,) = toasts(open_page("measure", **{f"n{number}": "1" for number in range(30)}))
    assert said.startswith("n0=1, n1=1, n2=1, n3=1, n4=1 and 25 more in the link are not used")


def test_a_name_that_is_not_known_has_one_message_whatever_its_value():
    (said,) = toasts(open_page("measure", foo="inf"))
    assert "foo=inf in the link is not used" in said
    app = open_page("check", versus="flash9")
    (said,) = toasts(app)
    assert "versus=flash9 in the link is not used" in said
    assert not any("versus" in warning.value for warning in app.warning)


def test_a_name_of_an_old_link_that_was_followed_is_not_said_later():
    app = open_page("learn", chapter="io", io_view="Backward")
    assert toasts(app) == []
    assert "io_view" not in app.session_state[ASKED]


@pytest.mark.parametrize(
    ("page", "query"),
    [
        *((page, {}) for page in ("explore", "learn", "measure", "check", "talk")),
        *(("measure", {"axis": axis, "load": "batch"}) for axis in ("batch", "head_dim")),
        ("check", {"view": "grid"}),
    ],
)
def test_every_name_that_a_page_reads_from_its_url_is_one_that_it_says_it_takes(page, query):
    """The names are those of the widgets that it draws, and those that its sources spell out."""
    app = open_page("" if page == "explore" else page, **query)
    assert not app.exception
    known = app.session_state[KNOWN]
    beginnings = tuple(name for name in known if name.endswith("_"))
    read = set().union(*(names_read(file) for file in (ROOT / "viz" / page).glob("*.py")), names_drawn(app))
    assert {name for name in read if name not in known and not name.startswith(beginnings)} == set()
    assert page not in ("explore", "measure", "check") or len(names_drawn(app)) > 5


def names_drawn(app):
    """Names in the URL of the widgets that are drawn."""
    nodes = [app.main, app.sidebar]
    for node in nodes:  # grows meanwhile
        nodes += getattr(node, "children", {}).values()
    return {getattr(getattr(node, "proto", None), "query_param_key", "") for node in nodes} - {""}


def names_read(file):
    """Names in the URL that a source has as literals."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            words = {each.arg: each.value for each in node.keywords}
            if "bind" in words:
                found.add(words["key"])
            if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "st.query_params":
                found.update(node.args[:1])
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "st.query_params":
            found.add(node.slice)
    return {node.value for node in found if isinstance(node, ast.Constant)}


def test_a_value_of_the_problem_has_one_message():
    app = open_page(q_len="-5")
    assert toasts(app) == []
    assert [warning.value for warning in app.warning if f"q_len={plain('-5')}" in warning.value]


def test_chapters_say_it_too():
    assert toasts(open_chapter("roofline", roofline_others="perhaps")) == [
        f"{plain('roofline_others')}=perhaps in the link is not accepted. Shown is False."
    ]


def test_a_second_algorithm_that_does_not_exist_is_named():
    app = open_page(versus="flash9")
    assert any("versus=flash9 in the link is not accepted" in warning.value for warning in app.warning)


def test_what_a_preset_writes_into_the_url_is_not_a_link():
    app = open_page()
    for preset in [*PRESETS][:4]:
        app.selectbox(key="preset").set_value(preset).run()
        assert toasts(app) == [], preset


def test_a_value_that_waits_on_one_page_is_not_judged_on_another():
    app = open_page(repeats="7")
    app._page_hash = calc_hash("check")
    app.query_params.clear()
    assert toasts(app.run()) == []


def test_a_page_that_is_opened_again_by_another_link_says_it_again():
    app = open_page("measure", hd="77")
    app._page_hash = calc_hash("learn")
    app.run()
    app._page_hash = calc_hash("measure")
    app.query_params["hd"] = "79"
    assert toasts(app.run()) == ["hd=79 in the link is not accepted. Shown is 64."]


PICTURE = "![x](http://a.b)"


def test_a_value_cannot_become_a_picture():
    (said,) = toasts(open_page("measure", which=PICTURE))
    assert plain(PICTURE) in said


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("talk", {"name": PICTURE}),
        ("check", {"view": "grid", "shapes": PICTURE}),
        ("check", {"kernel": PICTURE}),
        ("learn", {"chapter": PICTURE}),
        ("explore", {"mask": PICTURE}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_no_message_makes_a_picture_of_a_value(stop_the_worker, page, query):
    assert runs.run_store().client.wait_ready(60)  # before that, Check draws no grid
    app = open_page("" if page == "explore" else page, **query)
    assert not app.exception
    kinds = (app.error, app.warning, app.info, app.toast, app.markdown, app.caption)
    shown = [element.value for kind in kinds for element in kind]
    assert not [words for words in shown if PICTURE in words]
    assert any(plain(PICTURE) in words for words in shown)


def test_an_infinite_number_has_one_message():
    (said,) = toasts(open_page("measure", seqs="inf"))
    assert "not a finite number" in said


def test_a_kernel_of_the_users_is_called_by_its_label(monkeypatch):
    buggy = f"{ROOT / 'examples' / 'buggy_kernel.py'}:attention"
    monkeypatch.setattr("sys.argv", ["app.py", "--kernel", buggy])
    (label,) = kernel_labels(named_kernels()).values()
    assert toasts(open_page("check", kernel=label)) == []
