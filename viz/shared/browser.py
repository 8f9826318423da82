"""What pages do in the browser besides widgets: charts follow its appearance, Back undoes one act."""

import streamlit as st

# Streamlit calls a component again when the appearance changes, but runs the page again only if it is told.
_appearance = st.components.v2.component(
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

# Streamlit makes a step of its own for each widget whose value it writes to the URL or takes out of it. A
# link from Learn to the player made ten, and from each of them Back led to a URL that made more.
_history = st.components.v2.component(
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


def follow_appearance() -> None:
    """Run the page again when its appearance changes: the palette of its charts is chosen in Python."""
    _appearance(key="appearance", on_changed_change=lambda: None)


def one_step_per_act() -> None:
    """Join the steps that follow from one click or key, or from Back. They all end at the last URL."""
    _history(key="history")


_paint = st.components.v2.component(
    "paint",
    html="<span></span>",
    js="""
export default function ({ setStateValue }) {
  requestAnimationFrame(() => requestAnimationFrame(() => setStateValue("done", true)));
}
""",
)


def is_painted() -> bool:
    """Whether the browser has painted what stands above. For a fragment: it runs again once that is so."""
    if not st.session_state.get("is_painted"):
        st.session_state["is_painted"] = _paint(
            key="paint", default={"done": False}, on_done_change=lambda: None
        ).done
    return st.session_state["is_painted"]
