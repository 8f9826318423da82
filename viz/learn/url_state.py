"""Widgets that code sets too: a slider that buttons move, a text that examples fill in.

Streamlit's own binding to the URL needs a default value for the widget, and Streamlit warns if code then
sets the value. So here the URL is the state: it is read before the widget is drawn, and written when the
value changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

Value = TypeVar("Value", int, str)


def take_from_url(key: str, default: Value, read: Callable[[str], Value]) -> None:
    """Give the widget with this key the value in the URL.

    `default` if there is none, or if `read` raises ValueError. Call this before the widget, and give the
    widget no default.
    """
    if st.session_state.pop(_moved(key), False):
        return  # the widget has this value already, and the reader may be moving it on
    text = st.query_params.get(key)
    try:
        st.session_state[key] = default if text is None else read(text)
    except ValueError:
        st.session_state[key] = default


def put_in_url(key: str, value: int | str, default: int | str | None = None) -> None:
    """Write a value to the URL, or take it out if it is the default. For the callback of a button."""
    if value == default:
        st.query_params.pop(key, None)
    else:
        st.query_params[key] = str(value)


def keep_in_url(key: str, default: int | str | None = None) -> None:
    """Write the value that the reader gave to the widget with this key. For its `on_change`."""
    put_in_url(key, st.session_state[key], default)
    st.session_state[_moved(key)] = True


def _moved(key: str) -> str:
    """Where it is noted that this run of the page was started by the widget itself."""
    return f"{key} moved"
