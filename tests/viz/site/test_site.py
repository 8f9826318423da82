"""The files of the site: every link leads to one, and the first page is small."""

import json
import re

import pytest

from examples import my_site
from tests.viz.player.runs import PROBLEM, hand_built
from viz.site.__main__ import main

MOST_BYTES = 3e6
"""Of the first page."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Path to text of the files that the example writes, with runs of one's own."""
    out = tmp_path_factory.mktemp("site") / "a" / "b"
    my_site.main(str(out))
    return {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*.*")}


def inlined(page):
    return json.loads(re.search(r'<script type="application/json" id="site">(.*?)</script>', page)[1])


def recordings(files):
    """Data by name: of the scripts, and of the run that lies in the page."""
    texts = {path: text for path, text in files.items() if path.startswith("runs/")}
    calls = [json.loads(f"[{re.fullmatch(r'recording.(.*).;', text.strip())[1]}]") for text in texts.values()]
    assert sorted(texts) == sorted(f"runs/{name}.js" for name, _ in calls)
    first = inlined(files["index.html"])
    return dict(calls) | {first["name"]: first["run"]}


def test_every_link_leads_to_a_file_or_a_place_of_the_site(files):
    page, runs = files["index.html"], recordings(files)
    assert set(re.findall(r'(?:href="#run=|<option value=")([^"]+)"', page)) == runs.keys()
    assert all(set(data["runs"]) <= runs.keys() for data in runs.values() if is_duel(data))
    places = re.findall(r'href="#(\w+)"', page)
    assert places
    assert all(f'id="{place}"' in page for place in places)
    talks = re.findall(r'href="(talks/\w+\.html)"', page)
    assert sorted(talks) == sorted(path for path in files if path.startswith("talks/"))


def is_duel(data):
    return "runs" in data and data.get("kind") != "ranks"


def test_each_recording_says_its_gpu_and_its_date(files):
    for name, data in recordings(files).items():
        texts = json.dumps(data.get("lanes") or data)
        made = "run by Triton" if name.startswith("own") else r"recorded on NVIDIA H\d00"
        says = rf"{made}[^\"]* 20\d\d-\d\d-\d\d"
        if data.get("kind") == "ranks":
            says = r"Recorded 20\d\d-\d\d-\d\d: 4 ranks on NVIDIA H200"
        assert is_duel(data) or re.search(says, texts), name


def test_the_first_page_is_small_and_begins_with_a_run_of_ones_own(files):
    assert len(files["index.html"].encode()) < MOST_BYTES
    assert inlined(files["index.html"])["name"] == "own.1"


def test_the_command_hands_on_its_traces_and_refuses_what_is_none(tmp_path, capsys, monkeypatch):
    file, out, given = tmp_path / "run.npz", str(tmp_path / "out"), []
    hand_built(PROBLEM).save(file)
    assert main([str(file)]) == 2
    assert "run.npz" in capsys.readouterr().err
    monkeypatch.setattr("viz.site.__main__.write_site", lambda *words: given.append(words) or 1)
    assert main([out, "--trace", str(file), "--source", "https://example.org"]) == 0
    ((_, (trace,), source),) = given
    assert (trace.problem, source) == (PROBLEM, "https://example.org")
    file.write_text("no trace")
    assert main([out, "--trace", str(file)]) == 2
    assert "run.npz" in capsys.readouterr().err
