"""Each example of the README is a talk that is accepted, and that its run can show."""

import re
from pathlib import Path

import pytest

from kernels.algorithms import run_traced
from viz.player.talk.data import talk_data
from viz.player.talk.read import parse_talk
from viz.talk.shipped import recorded_runs

README = (Path(__file__).parents[3] / "viz" / "talk" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
OTHER = re.compile(r"^# (\w+)( = .*)\n", re.MULTILINE)
"""A field that is given in another way, below the line whose place it would take."""


def examples():
    """Every block as it stands, and with each of the other ways to give a field."""
    for block in BLOCKS:
        text = block if block.startswith("title") else f'title = "t"\n{block}'
        plain = OTHER.sub("", text)
        yield plain
        for other in OTHER.finditer(text):
            before = text[: other.start()]
            line = list(re.finditer(rf"^{other[1]} = .*\n", before, re.MULTILINE))[-1]
            yield OTHER.sub(
                "", f"{before[: line.start()]}{other[0][2:]}{before[line.end() :]}{text[other.end() :]}"
            )


@pytest.mark.parametrize("text", list(examples()))
def test_an_example_is_parsed_and_its_runs_show_it(text):
    talk = parse_talk(text, "README.md")
    found = recorded_runs(talk)
    for name in talk.runs:
        if name not in found:
            found[name] = run_traced(name.problem, name.algorithm), "run here"
    data = talk_data(talk, found)
    assert len(data["scenes"]) == len(talk.scenes)
