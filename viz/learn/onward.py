"""The way from chapter to chapter: buttons to the neighbours, and a page that starts at its top again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import streamlit as st

from viz.learn.stepper import PARTS_LEFT
from viz.learn.url_state import put_in_url

_to_top = st.components.v2.component(
    "to_top",
    html="<span></span>",
    js="""
let shown;
export default function ({ data }) {
  if (shown !== undefined && shown !== data.place) {
    document.querySelector('[data-testid="stMain"]')?.scrollTo({ top: 0 });
  }
  shown = data.place;
}
""",
)


class Titled(Protocol):
    """What is needed of a chapter."""

    @property
    def slug(self) -> str:
        """Its name in the URL."""

    @property
    def title(self) -> str:
        """As in the list of chapters."""

    @property
    def question(self) -> str:
        """What it asks."""


def onward(chapters: Sequence[Titled], place: int) -> None:
    """Buttons to the chapter before and after the one at `place`; the way on is the primary button.

    While the chapter has parts left, its own button to the next part is.
    """
    ends = not st.session_state.pop(PARTS_LEFT, False)
    with st.container(horizontal=True, key="onward"):
        for step, words, icon in ((-1, "Back", "arrow_back"), (1, "Next", "arrow_forward")):
            if not 0 <= place + step < len(chapters):
                continue
            other = chapters[place + step]
            question = f". {other.question}" if step > 0 else ""
            st.button(
                f"{words}: {place + step + 1} {other.title}{question}",
                key=f"chapter_{words}",
                icon=f":material/{icon}:",
                type="primary" if step > 0 and ends else "secondary",
                on_click=put_in_url,
                args=("chapter", other.slug, chapters[0].slug),
            )


def start_at_top(place: str) -> None:
    """Scroll to the top if `place`, the name of what is shown, is another one than before."""
    _to_top(key="to_top", data={"place": place})
