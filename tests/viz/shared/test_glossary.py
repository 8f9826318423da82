"""Terms explain themselves, every marked term exists, and a symbol in a text is that of the figures."""

import re

import pytest

from tests import ROOT
from viz.shared import theme
from viz.shared.glossary import BY_NAME, MARK, TERMS, _style, mark, symbol_class, term_html

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


def test_marks_and_indices_of_a_label_do_not_count():
    labels = {"Q": "Q", "K<sup>T</sup>": "K", "S<sub>1,1</sub>": "S", "α": "alpha", "dV": "dV"}
    assert [symbol_class(label) for label in labels] == [f"sym sym-{name}" for name in labels.values()]
    assert symbol_class("") == symbol_class("rowsum(P ∘ dP)") == ""


def test_every_symbol_lights_its_like():
    style = _style(theme.LIGHT)
    for term in TERMS:
        if symbol_class(term.symbol):
            name = symbol_class(term.symbol).split()[-1]
            assert f":has(.{name}:is(:hover, :focus)) .{name}" in style


def test_names_and_symbols_are_unique():
    symbols = [term.symbol for term in TERMS if term.symbol]
    assert (len(BY_NAME), len(set(symbols))) == (len(TERMS), len(symbols))
