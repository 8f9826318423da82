"""Charts follow the browser's appearance: light or dark."""

from __future__ import annotations

import streamlit as st

# Streamlit calls a component again when the appearance changes, but runs the page anew only if it is told.
_component = st.components.v2.component(
    "appearance",
    js="""
let shown = "";
export default function ({ parentElement, setTriggerValue }) {
  const background = getComputedStyle(parentElement.host).getPropertyValue("--st-background-color");
  if (shown && shown !== background) setTriggerValue("changed", background);
  shown = background;
}
""",
)


def follow_appearance() -> None:
    """Run the page again when its appearance changes: the palette of its charts is chosen in Python."""
    _component(key="appearance", on_changed_change=lambda: None)
