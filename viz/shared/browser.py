"""What pages do in the browser besides widgets: charts follow its appearance, Back undoes one act."""

from pathlib import Path
from typing import Any

import streamlit as st


def component(name: str, html: str | None = "<span></span>") -> Any:
    """A component that draws nothing, by its name and that of its script in `js/`."""
    script = (Path(__file__).parent / "js" / f"{name}.js").read_text("utf-8")
    return st.components.v2.component(name, html=html, js=script)


_appearance, _history, _paint = component("appearance", None), component("history"), component("paint")


def follow_appearance() -> None:
    """Run the page again when its appearance changes: the palette of its charts is chosen in Python."""
    _appearance(key="appearance", on_changed_change=lambda: None)


def one_step_per_act() -> None:
    """Join the steps that follow from one click or key, or from Back. They all end at the last URL."""
    _history(key="history")


def is_painted() -> bool:
    """Whether the browser has painted what stands above. For a fragment: it runs again once that is so."""
    if not st.session_state.get("is_painted"):
        st.session_state["is_painted"] = _paint(
            key="paint", default={"done": False}, on_done_change=lambda: None
        ).done
    return st.session_state["is_painted"]
