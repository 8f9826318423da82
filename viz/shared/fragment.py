"""A part of a page that is drawn again without the rest."""

import functools
from collections.abc import Callable
from typing import ParamSpec

import streamlit as st

P = ParamSpec("P")


def fragment(run_every: float | None = None) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A decorator as `st.fragment`, which never moves what stands below it. Call no fragment within one.

    If a fragment runs again before all of the page is sent, Streamlit drops what is left of it, with its
    place ("Bad delta path index"). So each one stands alone in a container of the page, which stays.
    """

    def decorated(draw: Callable[P, None]) -> Callable[P, None]:
        redrawn = st.fragment(draw, run_every=run_every)

        @functools.wraps(draw)
        def alone(*args: P.args, **kwargs: P.kwargs) -> None:
            with st.container():
                redrawn(*args, **kwargs)

        return alone

    return decorated
