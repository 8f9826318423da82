"""The player for a cell of a notebook."""

import html
import json
import re

import pytest

from tests import ROOT
from tests.viz.player.notebooks import run_notebook
from tests.viz.player.runs import PROBLEM, hand_built
from viz.player.html_page import export_html, json_element
from viz.player.notebook import show
from viz.shared.provenance import trace_provenance

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
TRACE = hand_built(PROBLEM, clock=True)


def page_of(markup):
    """The page in the frame of a cell's output."""
    return html.unescape(re.fullmatch(r'<iframe srcdoc="([^"]*)".*></iframe>', markup, re.DOTALL)[1])


def given(page):
    text = re.search(r'<script type="application/json" id="run">(.*?)</script>', page, re.DOTALL)[1]
    return json.loads(text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_examples_runs_without_streamlit(path, tmp_path):
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4
    assert all(not cell.get("outputs") for cell in notebook["cells"])  # as it is before it is run
    shown, modules = run_notebook(path, tmp_path)
    assert "streamlit" not in modules
    pages = [page_of(markup) for markup in shown if markup.startswith("<iframe")]
    assert len(pages) == sum("show(" in "".join(cell["source"]) for cell in notebook["cells"][2:])
    runs = [run for page in pages for run in (given(page)["run"].get("runs") or [given(page)["run"]])]
    files = [kernel["source"]["file"] for run in runs for kernel in run["kernels"]]
    assert all(file.startswith("kernels/algorithms/") for file in files)  # whatever folder Python stands in


def test_the_state_and_the_provenance_are_those_that_were_asked_for():
    held = given(show(TRACE, step=3, row="0.2", opened=True).page)
    assert held["state"] == {"step": "3", "row": "0.2", "open": "tile"}
    assert held["run"]["provenance"] == trace_provenance(TRACE)
    both = given(show(TRACE, versus=TRACE, step="bytes:9").page)
    assert both["state"] == {"place": "bytes:9"}
    assert len(both["run"]["runs"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": "banana"}, "step='banana' is not accepted; expected .* such as 37"),
        ({"step": -1}, "step='-1' is not accepted"),
        ({"step": "37", "versus": TRACE}, "step='37' is not accepted; expected bytes:0"),
        ({"row": "2"}, "row='2' is not accepted; expected .*0.20"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_shown_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        show(TRACE, **options)


@pytest.mark.parametrize("words", ["</script><b>", "<!--<script>", '" onload="x', "<\\/", "&quot;"])
def test_no_words_of_a_run_leave_their_place(words, data):
    """A user's kernel names itself and its tensors."""
    page = export_html(data | {"provenance": words})
    assert given(page)["run"]["provenance"] == words
    assert "<" not in json_element("run", words).removeprefix("<script").removesuffix("</script>")
    (markup,) = re.findall(r"<iframe.*", show(TRACE)._repr_html_(), re.DOTALL)
    assert markup.count('"') == 8  # srcdoc, title, allow, style: nothing inside ends an attribute
