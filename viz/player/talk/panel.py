"""The popover with what a page shows, as a scene of a talk."""

from collections.abc import Callable

import streamlit as st

from viz.player.talk.scene import Scene, scene_toml

HELP = "What you see, as a scene. Copy it into the file of a talk; its page says what a talk is."


def scene_popover(scene: Callable[[], Scene | str], key: str, words: str = HELP) -> None:
    """A button that shows the scene; `scene` may say instead why there is none. It is asked at each click."""
    with st.popover("Scene for a talk", icon=":material/content_copy:", key=key):
        shown = scene()
        if isinstance(shown, str):
            st.caption(shown)
            return
        st.caption(words)
        st.code(scene_toml(shown), language="toml", wrap_lines=True)
        # a click draws this panel anew
        st.button("Take what is shown now", icon=":material/refresh:", key=f"{key}_again")
