"""Every term of the project in plain words: shown on a term by hover and by key, and listed as a whole.

In a text, `[[row max]]` marks a term, and `[[row max|m]]` one that is shown as "m". A term with a symbol
lights the same symbol in the figures of the page, and a figure lights the term (`symbol_class`).
"""

import html
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from viz.shared import theme


class Term(NamedTuple):
    """One term; some name another term, which the list has too."""

    name: str
    words: str
    symbol: str
    """As it stands in figures and formulas; "" for none."""


def _sections() -> dict[str, list[Term]]:
    document = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    symbols = document.pop("symbols")
    return {
        heading: [Term(name, words, symbols.get(name, "")) for name, words in terms.items()]
        for heading, terms in document.items()
    }


SECTIONS = _sections()
FIRST_COLUMN = 3
"""Sections in the first column of the list; the others are in the second."""
TERMS = [term for terms in SECTIONS.values() for term in terms]
BY_NAME = {term.name: term for term in TERMS}
MARK = re.compile(r"\[\[([^\]|]+)(?:\|([^\]]+))?\]\]")
ASCII = {"α": "alpha", "Σ": "sum"}


def mark(text: str) -> str:
    """The text with its marked terms as HTML. Raises KeyError for a term that is not in TERMS."""
    return MARK.sub(lambda found: term_html(found[1], found[2] or found[1]), text)


def in_words(name: str) -> str:
    """A term and its sentence in Markdown, where a page cannot mark it."""
    term = BY_NAME[name]
    return f"**{term.name[0].upper()}{term.name[1:]}**: {term.words}"


def term_html(name: str, shown: str) -> str:
    """A term that explains itself by hover and by key (Tab), shown in these words."""
    term = BY_NAME[name]
    classes = f"term {symbol_class(term.symbol)}".strip()
    title = f"{term.name}, {term.symbol}" if term.symbol and term.symbol != term.name else term.name
    words = html.escape(f"{title}: {term.words}")
    return f'<dfn class="{classes}" tabindex="0" aria-description="{words}">{shown}</dfn>'


def symbol_class(symbol: str) -> str:
    """CSS class that a symbol has in text and figures; "" for none. Marks and indices do not count."""
    bare = re.sub(r"<sub>.*?</sub>|<sup>.*?</sup>|<[^>]*>", "", symbol).strip()
    bare = ASCII.get(bare, bare)
    return f"sym sym-{bare}" if re.fullmatch(r"[A-Za-z_]+", bare) else ""


def say(text: str, small: bool = False) -> None:
    """Markdown with marked terms, as a caption if `small`. Only for texts of the project: none is escaped."""
    (st.caption if small else st.markdown)(mark(text), unsafe_allow_html=True)


def glossary_style(colors: theme.Palette) -> None:
    """The looks of terms and of what they light, and the palette as --c-NAME. Once per page."""
    symbols = dict.fromkeys(filter(None, (symbol_class(term.symbol) for term in TERMS)))
    gradients = [f"sym sym-d{name}" for name in ("Q", "K", "V", "O", "S", "P")]
    names = [name.split()[-1] for name in (*symbols, *gradients, "sym sym-HBM", "sym sym-SRAM")]
    page = '[data-testid="stMain"]'
    lights = ",\n".join(f"{page}:has(.{name}:is(:hover, :focus-visible)) .{name}" for name in names)
    looks = "outline: 2px solid var(--c-now); outline-offset: 1px; border-radius: 3px"
    tint = "background-color: color-mix(in srgb, var(--c-now) 14%, transparent)"
    palette = "".join(f"--c-{name}: {color};" for name, color in vars(colors).items())
    css = Path(__file__).with_suffix(".css").read_text("utf-8")
    st.html(f"<style>:root {{ {palette} }}\n{css}{lights} {{ {looks}; {tint}; }}</style>")


def glossary_list() -> None:
    """All terms by section, sent once the reader unfolds them: the search of the browser finds each."""
    words, icon = "Glossary: every term in one sentence", ":material/dictionary:"
    place = st.expander(words, key="glossary", icon=icon, on_change="rerun")
    if not place.open:
        return
    with place:
        parts = [_section(heading, terms) for heading, terms in SECTIONS.items()]
        halves = (parts[:FIRST_COLUMN], parts[FIRST_COLUMN:])
        for column, half in zip(st.columns(2, gap="large"), halves, strict=True):
            column.markdown("\n".join(half))


def _section(heading: str, terms: list[Term]) -> str:
    symbols = [f", {term.symbol}" if term.symbol not in ("", term.name) else "" for term in terms]
    lines = [f"- **{term.name}**{symbol}: {term.words}" for term, symbol in zip(terms, symbols, strict=True)]
    return "\n".join([f"\n:gray-badge[{heading}]\n", *lines])
