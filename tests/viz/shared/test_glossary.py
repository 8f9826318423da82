"""Terms explain themselves, every marked term exists, and a symbol in a text is that of the figures."""

import re

import pytest

from tests import ROOT
from viz.shared.glossary import BY_NAME, MARK, TERMS, mark, term_html

SOURCES = [path for folder in ("learn", "explore") for path in (ROOT / "viz" / folder).rglob("*.*")]
JOINED = re.compile(r'"\s*\n\s*(?:rf|f|r)?"')


def test_a_marked_term_is_reached_by_key_and_says_its_words():
    html = mark("The [[row max|m]] of a row.")
    assert html.startswith("The <dfn ")
    assert 'tabindex="0"' in html
    assert f'aria-description="row max, m: {BY_NAME["row max"].words}"' in html
    assert ">m</dfn> of" in html
    with pytest.raises(KeyError, match="row maximum"):
        mark("[[row maximum]]")


def test_every_marked_term_of_the_pages_is_in_the_glossary():
    files = [path for path in SOURCES if path.suffix in (".py", ".md", ".toml")]
    texts = [JOINED.sub("", path.read_text()).replace("\n", " ") for path in files]
    names = {found[1] for text in texts for found in MARK.finditer(text)}
    assert "row max" in names
    assert [name for name in names if re.fullmatch(r"[\w /-]+", name) and name not in BY_NAME] == []


def test_words_cannot_leave_their_attribute():
    said = [term_html(term.name, "x").split('aria-description="')[1].split('">')[0] for term in TERMS]
    assert '"' not in "".join(said)
