"""A part of a page that is drawn again without the rest."""

import functools
from collections.abc import Callable
from typing import ParamSpec

import streamlit as st
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession

P = ParamSpec("P")
Ask = Callable[[AppSession, ClientState | None], None]


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


def _for_the_page_shown(ask: Ask) -> Ask:
    """`AppSession.request_rerun`, but what a page's fragment asks for after another page is dropped.

    Streamlit (1.67) would empty the new page for it, and the fragment's place there with the rest.
    """

    @functools.wraps(ask)
    def asked(session: AppSession, client: ClientState | None) -> None:
        if client and client.fragment_id:
            if client.page_script_hash != session._client_state.page_script_hash:
                return
        elif client:
            session._client_state.page_script_hash = client.page_script_hash
        ask(session, client)

    return asked


AppSession.request_rerun = _for_the_page_shown(AppSession.request_rerun)  # type: ignore[assignment, method-assign]
