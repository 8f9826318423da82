"""The words of a page as Markdown: `words.md` beside it has sections; the page gives numbers and figures.

In a section, `{{name}}` is a number and `[[row max|m]]` a term of the glossary. A line `<name>` is what the
page gives by that name, or else the section of that name; several in a line stand side by side, `<name:3>`
three times as wide as `<other>`. A paragraph that begins with `> ` is small print, `# ` begins a heading, and
lines that begin with `$$ ` are formulas side by side. `### ` begins what is folded, and `---` ends it. A line
that ends with a backslash ends a line on the page.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from viz.shared import formats
from viz.shared.glossary import say
from viz.shared.layout import explore_link, plot

NUMBER = re.compile(r"{{(\w[\w.\[\]/ ]*)(?::([^}]*))?}}")
SLOT = re.compile(r"<(\w+)(?::(\d+))?>")
FORMATS: dict[str, Callable[..., str]] = {
    "bytes": formats.format_bytes,
    "KiB": formats.format_kib,
    "time": formats.format_ms,
    "seconds": lambda seconds: formats.format_ms(1e3 * seconds),
    "flops": formats.format_flops,
    "times": formats.format_ratio,
    "error": formats.format_error,
    "number": formats.format_number,
    "digits": formats.significant,
    "count": formats.format_count,
    "tex": formats.format_tex,
    "entry": formats.format_entry,
}
"""How a number is written, by what stands after its name: {{size:bytes}}, {{m:number 6}}, {{n:count tile}}.

Any other word is a format of Python: {{n:,}}. The name may lead to a field, as in {{gpu.name}}.
"""


class Words:
    """The sections of `words.md` beside a page."""

    def __init__(self, page: str) -> None:
        pieces = re.split(
            r"^## (.+)\n", Path(page).with_name("words.md").read_text("utf-8"), flags=re.MULTILINE
        )
        self.sections = {
            name: _unwrapped(text) for name, text in zip(pieces[1::2], pieces[2::2], strict=True)
        }

    def __call__(self, section: str, **given: Any) -> str:
        """A section with its numbers. Raises KeyError for a section or a number that is not there."""
        return filled(self.sections[section], given)

    def cells(self, section: str, **given: Any) -> list[Any]:
        """The cells of a section whose lines are those of a table without a head."""
        return [line.strip("| ").split(" | ") for line in self(section, **given).split("\n")]

    def rows(self, section: str, items: Iterable[Mapping[str, Any]]) -> str:
        """A table: the lines of a section, of which the last is repeated with the numbers of each item."""
        *head, row = self.sections[section].split("\n")
        return "\n".join([*head, *(filled(row, item) for item in items)])

    def draw(self, section: str, **given: Any) -> None:
        """Draw a section: given are numbers, figures, HTML, Markdown, lists of links, functions that draw."""
        with contextlib.ExitStack() as folded:
            text: list[str] = []
            for block in [*self.sections[section].split("\n\n"), "---"]:
                if not block.startswith(("<", "> ", "$$ ", "# ", "### ", "---")):
                    text.append(block)
                    continue
                if text:
                    say(filled("\n\n".join(text), given))
                    text = []
                if block.startswith(("### ", "---")):
                    folded.close()
                if block.startswith("### "):
                    folded.enter_context(st.expander(block[4:]))
                elif slots := SLOT.findall(block) if block.startswith("<") else []:
                    self._draw_slots(slots, given)
                else:
                    _draw_block(block, given)

    def _draw_slots(self, slots: list[tuple[str, str]], given: dict[str, Any]) -> None:
        """What the page gives by these names; if it gives nothing, the sections with these names."""
        places: Sequence = [contextlib.nullcontext()]
        if len(slots) > 1:
            widths = [int(width or 1) for _, width in slots]
            places = st.columns(widths, gap="large", vertical_alignment="center")
        for place, (name, _) in zip(places, slots, strict=True):
            with place:
                if name in given:
                    _draw_given(name, given[name])
                else:
                    self.draw(name, **given)


def _draw_block(block: str, given: dict[str, Any]) -> None:
    if block.startswith("> "):
        say(filled(block[2:], given), small=True)
    elif block.startswith("$$ ") and "\n" not in block:
        st.latex(filled(block[3:], given))
    elif block.startswith("$$ "):
        formulas(*(filled(line[3:], given) for line in block.split("\n")))
    elif block.startswith("# "):
        st.subheader(block[2:], anchor=False)


def _draw_given(name: str, element: Any) -> None:
    if isinstance(element, go.Figure):
        plot(element, key=f"figure_{name}")
    elif isinstance(element, list):
        links(*element)
    elif callable(element):
        element()
    elif element.startswith("<"):
        st.html(element)
    elif element:
        say(element)


def filled(text: str, given: Mapping[str, Any]) -> str:
    """A text with its numbers. Raises KeyError for a number that is not given."""

    def number(found: re.Match) -> str:
        value, spec = Formatter().get_field(found[1], (), given)[0], found[2] or ""
        kind, _, more = spec.partition(" ")
        if kind not in FORMATS:
            return format(value, spec)
        return FORMATS[kind](value, *([int(more) if more.isdecimal() else more] if more else []))

    return NUMBER.sub(number, text)


def _unwrapped(text: str) -> str:
    """Lines of a paragraph or a list entry joined: in the file they are wrapped."""
    joined = re.sub(r"(?<![\n\\|>])\n(?![\n|]|- |\$\$ |> )[ ]*", " ", text.strip())
    return joined.replace("\\\n", "  \n")


def formulas(*tex: str) -> None:
    """Pieces of LaTeX side by side, which wrap if the page is narrow."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for piece in tex:
            st.latex(piece, width="content")


def links(*targets: Sequence[Any]) -> None:
    """Links to Explore side by side, each the arguments of `explore_link`."""
    with st.container(horizontal=True):
        for target in targets:
            explore_link(*target)
