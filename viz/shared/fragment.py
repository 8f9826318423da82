"""A part of a page that is drawn again without the rest."""

import contextlib
import functools
import gc
import sys
from collections.abc import Callable
from typing import Any, ParamSpec

import streamlit as st
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequestType

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


class _Stopped(Exception):
    """Ends the runs of a thread."""


def _unless_stopped(finished: Callable[..., None]) -> Callable[..., None]:
    """`ScriptRunner._on_script_finished`, but a thread that was asked to stop runs nothing more.

    What modules hold is kept from the search for garbage with which Streamlit ends each run, also that of a
    bar that moves: it took 0.13 s of a processor each time.

    Streamlit (1.67) would begin the run that its last one asked for, beside the next thread's run of another
    page, and tell that one that it draws this page.
    """

    modules = 0

    @functools.wraps(finished)
    def ended(runner: ScriptRunner, *args: Any) -> None:
        nonlocal modules
        if len(sys.modules) > modules:
            modules = len(sys.modules)
            gc.collect()
            gc.freeze()
        finished(runner, *args)
        if runner._requests._state is ScriptRequestType.STOP:
            raise _Stopped

    return ended


def _until_stopped(run: Callable[..., None]) -> Callable[..., None]:
    """`ScriptRunner._run_script`."""

    @functools.wraps(run)
    def runs(runner: ScriptRunner, data: RerunData) -> None:
        with contextlib.suppress(_Stopped):
            run(runner, data)

    return runs


ScriptRunner._on_script_finished = _unless_stopped(ScriptRunner._on_script_finished)  # type: ignore[method-assign]
ScriptRunner._run_script = _until_stopped(ScriptRunner._run_script)  # type: ignore[method-assign]
AppSession.request_rerun = _for_the_page_shown(AppSession.request_rerun)  # type: ignore[assignment, method-assign]
