"""Terms explain themselves, every marked term exists, and a symbol in a text is that of the figures."""

import re

import pytest

from kernels.measure.peers import PEERS
from tests import ROOT
from viz.shared import theme
from viz.shared.glossary import BY_NAME, MARK, SECTIONS, TERMS, _style, mark, symbol_class, term_html

SOURCES = [path for folder in ("learn", "explore") for path in sorted((ROOT / "viz" / folder).glob("*.py"))]
JOINED = re.compile(r'"\s*\n\s*(?:rf|f|r)?"')


def test_a_marked_term_is_reached_by_key_and_says_its_words():
    html = mark("The [[row max|m]] of a row.")
    assert html.startswith("The <dfn ")
    assert 'tabindex="0"' in html
    assert f'aria-description="row max, m: {BY_NAME["row max"].words}"' in html
    assert ">m</dfn> of a row." in html


def test_an_unknown_term_is_refused():
    with pytest.raises(KeyError, match="row maximum"):
        mark("[[row maximum]]")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_marked_term_of_the_pages_is_in_the_glossary(path):
    names = [found[1] for found in MARK.finditer(JOINED.sub("", path.read_text()))]
    assert [name for name in names if re.fullmatch(r"[\w /-]+", name) and name not in BY_NAME] == []


def test_words_cannot_leave_their_attribute():
    assert all(
        '"' not in term_html(term.name, "x").split('aria-description="')[1].split('">')[0] for term in TERMS
    )


def test_every_section_of_the_list_begins_with_a_term_and_the_first_term_begins_one():
    names = [term.name for term in TERMS]
    assert names[0] in SECTIONS
    assert [name for name in names if name in SECTIONS] == list(SECTIONS)


def test_a_peer_that_is_named_after_a_library_has_a_term_for_it():
    labels = " ".join(peer.label for peer in PEERS.values())
    for name in ("SDPA", "cuDNN", "FlexAttention"):
        assert name in labels
        assert name in BY_NAME


def test_standard_and_naive_attention_name_each_other():
    assert "naive attention" in BY_NAME["standard attention"].words
    assert "Standard attention" in BY_NAME["naive attention"].words


def test_names_and_symbols_are_unique():
    symbols = [term.symbol for term in TERMS if term.symbol]
    assert len(BY_NAME) == len(TERMS)
    assert len(set(symbols)) == len(symbols)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Q", "sym sym-Q"),
        ("K<sup>T</sup>", "sym sym-K"),
        ("S<sub>1,1</sub>", "sym sym-S"),
        ("α", "sym sym-alpha"),
        ("dV", "sym sym-dV"),
        ("", ""),
        ("rowsum(P ∘ dP)", ""),
    ],
)
def test_marks_and_indices_of_a_label_do_not_count(label, name):
    assert symbol_class(label) == name


def test_every_symbol_lights_its_like():
    style = _style(theme.LIGHT)
    for term in TERMS:
        if symbol_class(term.symbol):
            name = symbol_class(term.symbol).split()[-1]
            assert f":has(.{name}:is(:hover, :focus)) .{name}" in style


def test_no_term_is_explained_by_a_symbol_that_is_not():
    known = {term.symbol for term in TERMS} | {"N", "M", "T", "L2"}
    for term in TERMS:
        found = set(re.findall(r"\b[A-Z]\b", term.words)) - {"A", "I"}
        assert found <= known, (term.name, found - known)
