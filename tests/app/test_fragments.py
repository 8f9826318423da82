"""A part of a page that is drawn again at once leaves the rest of the page in its place."""

import gc
from types import SimpleNamespace

import pytest
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests

from tests.app.pages import open_page
from viz.shared.fragment import _unless_stopped, _until_stopped


@pytest.fixture
def sent():
    """What pages send to the browser, in order."""
    messages = []
    ForwardMsgQueue.on_before_enqueue_msg(messages.append)
    yield messages
    ForwardMsgQueue.on_before_enqueue_msg(None)


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("", {"mask": "causal"}),
        ("", {"mask": "causal", "vs": "flash1"}),
        ("learn", {"chapter": "kernel"}),
        ("learn", {"chapter": "after"}),
        ("check", {"q_len": "307", "kv_len": "307"}),  # checked by no other test: a result needs no fragment
    ],
)
def test_what_is_cut_out_of_the_queue_moves_nothing_else(sent, page, query):
    """If a fragment runs again before all is sent, Streamlit drops the rest of what that fragment drew."""
    open_page(page, **query)
    fragments = {message.delta.fragment_id for message in sent} - {""}
    assert fragments
    for fragment in fragments:
        for begin in range(len(sent)):
            rest = ForwardMsgQueue()
            rest._queue = sent[begin:]
            rest.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=[fragment])
            assert misplaced([*sent[:begin], *rest.flush()]) == [], fragment


def test_what_a_page_asks_for_after_another_was_asked_for_is_dropped():
    """Such as a poll that the browser sent before it knew: Streamlit empties the new page for it."""
    runs = []
    session = SimpleNamespace(
        _state=None,
        _client_state=ClientState(page_script_hash="explore"),
        _scriptrunner=None,
        _create_scriptrunner=runs.append,
        has_fragment=lambda _: True,
    )
    for page, fragment in (("explore", "poll"), ("check", ""), ("explore", "poll"), ("check", "poll")):
        AppSession.request_rerun(session, ClientState(page_script_hash=page, fragment_id=fragment))
    pages = [(run.page_script_hash, run.fragment_id) for run in runs]
    assert pages == [("explore", "poll"), ("check", None), ("check", "poll")]


def misplaced(messages):
    """The paths in the page, of what comes before something that stands above it."""
    children, wrong = {(place,): 0 for place in range(4)}, []
    for message in messages:
        if not message.HasField("delta"):
            continue
        *parent, index = message.metadata.delta_path
        if index > children.get(tuple(parent), -1):
            wrong.append((*parent, index))
            continue
        children[tuple(parent)] = max(children[tuple(parent)], index + 1)
        if message.delta.HasField("add_block"):
            children[(*parent, index)] = 0
    return wrong


def test_a_thread_that_was_asked_to_stop_begins_no_further_run():
    """Such as one that a fragment has just asked for, when the reader goes to another page."""
    runs, requests = [], ScriptRequests()

    finished = _unless_stopped(lambda runner: runs.append("finished"))

    def loop(runner, first):
        for run in (first, "asked for by the first"):
            runs.append(run)
            finished(runner)

    runner = SimpleNamespace(_requests=requests)
    _until_stopped(loop)(runner, "first")
    assert runs == ["first", "finished", "asked for by the first", "finished"]
    requests.request_stop()
    runs.clear()
    _until_stopped(loop)(runner, "first")
    assert runs == ["first", "finished"]


def test_what_modules_hold_is_searched_for_garbage_once_not_after_each_run():
    ended, runner = _unless_stopped(lambda *_: None), SimpleNamespace(_requests=ScriptRequests())
    ended(runner)
    held, kept = gc.get_freeze_count(), [[] for _ in range(1000)]
    ended(runner)
    assert held > 100_000
    assert gc.get_freeze_count() < held + len(kept)
    gc.unfreeze()
