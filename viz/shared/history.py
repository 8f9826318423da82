"""One step of the browser's history per act of the reader, so that Back undoes one act."""

from __future__ import annotations

import streamlit as st

# Streamlit makes a step of its own for each widget whose value it writes to the URL or takes out of it. A
# link from Learn to the player made ten, and from each of them Back led to a URL that made more.
_component = st.components.v2.component(
    "history",
    html="<span></span>",
    js="""
export default function () {
  if (window.oneStepPerAct) return;
  window.oneStepPerAct = true;
  let isActOfReader = false;
  for (const type of ["pointerdown", "keydown"]) {
    window.addEventListener(type, () => { isActOfReader = true; }, true);
  }
  window.addEventListener("popstate", () => { isActOfReader = false; }, true);
  const push = history.pushState.bind(history);
  history.pushState = (...given) => {
    if (isActOfReader) push(...given);
    else history.replaceState(...given);
    isActOfReader = false;
  };
}
""",
)


def one_step_per_act() -> None:
    """Join the steps that follow from one click or key, or from Back. They all end at the last URL."""
    _component(key="history")
