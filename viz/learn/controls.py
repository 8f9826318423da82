"""Inputs that the chapters share, steps of a part and parts of a chapter. All are in the URL, by their keys.

Streamlit's own binding needs a default value for the widget, and Streamlit warns if code then sets the value.
So for widgets that code sets too, such as a slider that buttons move, the URL is the state: it is read before
the widget is drawn, and written when the value changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st

from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu
from kernels.problem import BLOCKS
from viz.shared.browser import component

Number = TypeVar("Number", int, float)
Option = TypeVar("Option")
Value = TypeVar("Value", int, str)
Width = int | Literal["stretch"]
HEAD_DIMS = (16, 32, 64, 128, 256)
TILE_SIZES = tuple(block for block in BLOCKS if block >= 16)
"""BLOCK_M or BLOCK_N of a chapter in which tiles stand for those of a GPU: its tensor cores take 16 rows."""
_to_top = component("to_top")

PARTS_LEFT, PART_SHOWN = "parts_left", "part_shown"
"""Keys in the session, of the chapter drawn last: whether parts follow the chosen one, and which that is."""


def number(
    label: str, low: Number, high: Number, value: Number, step: Number, key: str, width: Width
) -> Number:
    """A number from `low` to `high`, at first `value`."""
    return st.number_input(label, low, high, value, step, key=key, bind="query-params", width=width)


def choice(
    label: str, options: Sequence[Option], value: Option, key: str, width: Width, words: str | None = None
) -> Option:
    """One of the options, from a list that opens. `words` is the help text."""
    index = options.index(value)
    return st.selectbox(label, options, index, key=key, bind="query-params", width=width, help=words)


def slider(
    label: str,
    options: Sequence[Option],
    value: Option,
    key: str,
    words: str | None = None,
    width: Width = 140,
) -> Option:
    """One of the options, on a scale. `words` is the help text."""
    return st.select_slider(label, options, value, key=key, bind="query-params", help=words, width=width)


def gpu_choice(key: str, width: Width) -> Gpu:
    return GPUS[choice("GPU", list(GPUS), DEFAULT_GPU, key, width)]


def switch(
    label: str,
    options: Iterable[str],
    key: str,
    default: str | None = None,
    shown: Callable[[str], str] = str,
) -> str:
    """One of the options, all visible in the words of `shown`; at first `default`, or the first."""
    names = list(options)
    first = default or names[0]
    take_from_url(key, first, lambda text: names[names.index(text)])
    chosen = st.segmented_control(
        label,
        names,
        required=True,
        format_func=shown,
        key=key,
        on_change=keep_in_url,
        args=(key, first),
        label_visibility="collapsed",
    )
    return chosen or first


def take_from_url(key: str, default: Value, read: Callable[[str], Value]) -> None:
    """Give the next widget, which has no default, the URL's value; `default` if `read` raises ValueError."""
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


def parts(key: str, draws: Mapping[str, Callable[[], None]], *steppers: str) -> None:
    """The chosen part of a chapter, and a button to the next one. In another part `steppers` start anew."""
    names = list(draws)
    numbered = {name: f"{number}. {name}" for number, name in enumerate(names, 1)}
    chosen = switch("Part", names, key, shown=numbered.__getitem__)
    before, st.session_state[f"{key} before"] = st.session_state.get(f"{key} before", chosen), chosen
    for step in steppers if before != chosen else ():
        st.query_params.pop(step, None)
        st.session_state.pop(step, None)
    st.session_state[PART_SHOWN] = chosen
    draws[chosen]()
    following = names[names.index(chosen) + 1 :]
    st.session_state[PARTS_LEFT] = bool(following)
    if following:
        st.button(
            f"Go on: {numbered[following[0]]}",
            key=f"{key}_on",
            icon=":material/arrow_forward:",
            type="primary",
            on_click=put_in_url,
            args=(key, following[0], names[0]),
        )


def stepper(key: str, count: int, smaller: str = "scores at a time") -> int:
    """The step that the reader chose, 1 to `count`; fewer of what `smaller` names give more steps."""
    if count == 1:
        st.caption(f"There is one step only: choose fewer {smaller} to see more.")
        return 1
    row = st.container(horizontal=True, vertical_alignment="center", gap="small")
    buttons = row.container(horizontal=True, gap="small", width="content")
    with row:
        step = whole_number("step", key, 1, count, 1, format=f"%d of {count}", label_visibility="collapsed")
    with buttons:
        step_buttons(key, range(1, count + 1), step)
    return step


def whole_number(label: str, key: str, low: int, high: int, default: int, **looks: Any) -> int:
    """A slider that buttons may move too; a value of the URL that is too small or large is the nearest."""
    take_from_url(key, default, lambda text: min(max(int(text), low), high))
    return st.slider(label, low, high, key=key, on_change=keep_in_url, args=(key, default), **looks)


def step_buttons(key: str, steps: Sequence[int | str], now: int | str, *names: str) -> None:
    """Buttons that put another of the `steps` into the URL; the first one is its default. All, or by name."""
    place, last = steps.index(now), len(steps) - 1
    for name, icon, target, shortcut in (
        ("First", "first_page", 0, "Home"),
        ("Back", "chevron_left", max(place - 1, 0), "Left"),
        ("Forward", "chevron_right", min(place + 1, last), "Right"),
        ("Last", "last_page", last, "End"),
    ):
        if not names or name in names:
            st.button(
                name,
                key=f"{key}_{name}",
                icon=f":material/{icon}:",
                on_click=put_in_url,
                args=(key, steps[target], steps[0]),
                disabled=target == place,
                shortcut=shortcut,
            )


def start_at_top(place: str) -> None:
    """Scroll to the top if `place`, the name of what is shown, is another one than before."""
    _to_top(key="to_top", data={"place": place})
