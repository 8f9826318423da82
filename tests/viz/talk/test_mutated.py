"""Talks with one field of a wrong type, without it, or with one more: each is shown, or refused in words."""

import re

import pytest

from tests.viz.talk.test_readme import examples
from viz.player.talk.data import talk_data
from viz.player.talk.read import parse_talk
from viz.player.talk.scene import InvalidTalk
from viz.talk.shipped import NAMES, recorded_runs, talk_path

TALKS = [talk_path(name).read_text(encoding="utf-8") for name in NAMES] + list(examples())
FIELD = re.compile(r'(?<=[\n{,]) ?(?=(\w+) = ("[^"\n]+"|[\w.]+|\[[^\]\n]*\]+|\{[^}\n]*\}))')
"""A field of a table, also of one that stands in a line, with its value."""
SCALARS = ("true", "0", "-1", "2.5", "nan", "inf", "2020-01-01", "07:30:00")
TEXTS = ('""', '"x"', '"{x}"', '"{"', '"speedup"')
TABLES = ("[]", "[[]]", "[1]", '["naive"]', '[["naive"]]', "[{}]", "{}", "{ a = 1 }", "{ step = [1] }")


def changed(text):
    """The text with each of its fields changed in a third of the ways, its neighbours in others."""
    for number, field in enumerate(FIELD.finditer(text)):
        before, after = text[: field.start()], text[field.end(2) :]
        yield before + after  # it is gone, or what is left is not TOML
        for wrong in (SCALARS + TEXTS + TABLES)[number % 3 :: 3]:
            yield f"{before} {field[1]} = {wrong}{after}"
        yield f"{before} more = 1, {field[1]} = {field[2]}{after}"
        yield f"{before} more = 1\n{field[1]} = {field[2]}{after}"


def finding(text):
    """What is wrong with a talk; "" if it is shown, or if a run of it was not recorded."""
    try:
        talk = parse_talk(text, "a.toml")
        found = recorded_runs(talk)
        if len(found) == len(talk.runs):
            talk_data(talk, found)
    except InvalidTalk as error:
        return str(error)
    return ""


@pytest.mark.parametrize("text", TALKS, ids=[*NAMES, *range(len(TALKS) - len(NAMES))])
def test_a_changed_talk_is_shown_or_refused_in_words(text):
    top, *scenes = text.split("[[scene]]")
    changes = [change for scene in scenes for change in changed(f"{top}[[scene]]{scene}")]
    findings = [words for change in changes if (words := finding(change))]
    assert len(findings) > 30
    assert all(words.startswith("a.toml") for words in findings)
