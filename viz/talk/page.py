"""Talk: a list of talks; one that is named in the URL fills the window."""

import functools
from pathlib import Path

import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.worker.requests import TraceRequest
from viz.player.component import show_talk
from viz.player.talk.data import Runs, export_talk, talk_data
from viz.player.talk.read import read_talk
from viz.player.talk.scene import InvalidTalk, Talk
from viz.shared import runs
from viz.shared.formats import plain
from viz.shared.layout import download, header
from viz.shared.link import takes_from_link
from viz.shared.options import named_file
from viz.shared.waiting import asked_job, result_of
from viz.talk.shipped import NAMES, recorded_data, recorded_runs, talk_path

OWN = "own"  # name in the URL of the talk that the command line names
# By label: what the name of the file ends with.
FILES = {"One HTML file": "", "With the speaker's notes": "-with-notes"}
STAGE = """<style>
[data-testid="stHeader"], [data-testid="stSidebar"], [data-testid="stToolbar"] { display: none; }
</style>"""


def show() -> None:
    """The page."""
    takes_from_link("name", "speaker")
    name = st.query_params.get("name")
    files = talk_files()
    if name is None:
        _list(files)
    elif name not in files:
        _say(f"There is no talk {name[:60]!r}; expected one of {', '.join(files)}.")
        _list(files)
    else:
        _stage(files[name])


def talk_files() -> dict[str, Path]:
    """Name to file of every talk: first the user's own, if the command line names one."""
    own = named_file("--talk")
    return ({OWN: own} if own else {}) | {name: talk_path(name) for name in NAMES}


def _stage(path: Path) -> None:
    data = _data_of(path)
    if data is None:
        return
    st.html(STAGE)
    show_talk(data, speaker=st.query_params.get("speaker") == "true")


def _data_of(path: Path) -> dict | None:
    """What the stage shows; None if there is none yet, and the page says why."""
    try:
        talk = read_talk(path)
        if data := recorded_data(talk):  # refuses what is wrong before anything runs
            return data
        found = recorded_runs(talk)
        others = _live_runs(talk, found)
        return talk_data(talk, found | others) if others else None
    except InvalidTalk as error:
        _say(error)
        return None


def _say(error: InvalidTalk | str) -> None:
    st.error(plain(str(error)), icon=":material/error:")


def _live_runs(talk: Talk, found: Runs) -> Runs | None:
    """The runs of a talk that were not recorded, made here; None until all of them are there.

    Raises InvalidTalk if nothing can run here.
    """
    store = runs.run_store()
    where = runs.backend(store)
    made: Runs = {}
    for name in (each for each in talk.runs if each not in found):
        algorithm = ALGORITHMS[name.algorithm]
        label, seconds = algorithm.label, runs.estimated_seconds(name.problem, algorithm, where)
        if store is None or where == "replay":
            words = f"{label} of {name.problem} was not recorded, and nothing can run here."
            raise InvalidTalk(f"{talk.file}: {words}")
        job = asked_job(store, TraceRequest(*name), seconds, f"Run {label}", notice=label)
        traced = result_of(store, job, f"talk-{len(made)}-{name.algorithm}")
        if traced is None:
            return None
        run = runs.live_run(traced)
        made[name] = run.trace, run.provenance
    return made


def _list(files: dict[str, Path]) -> None:
    header("Talks", runs.run_store())
    st.markdown(
        "A talk is a file of scenes. The stage fills the window, with one picture and one sentence per "
        "scene. **F5** begins, **→** goes on, **S** opens the speaker's window with notes and clock, "
        "**?** lists the keys."
    )
    for name, path in files.items():
        with st.container(border=True):
            _entry(name, path)
    st.caption(
        "Your own: `streamlit run app.py -- --talk my_talk.toml`. `viz/talk/README.md` says what it holds."
    )


def _entry(name: str, path: Path) -> None:
    try:
        talk = read_talk(path)
        data = recorded_data(talk)  # so that a talk that the stage refuses offers no file
    except InvalidTalk as error:
        _say(error)
        return
    st.markdown(f"##### {talk.title}")
    st.caption(f"{len(talk.scenes)} scenes, {talk.minutes:g} minutes")
    with st.container(horizontal=True):
        st.button(
            "On stage",
            key=f"stage-{name}",
            type="primary",
            icon=":material/slideshow:",
            # a link to this very page would leave the URL as it is
            on_click=lambda: st.query_params.update(name=name),
        )
        if data is not None:
            stem, words = name if name != OWN else path.stem, "Opens in any browser, without a network."
            for label, ending in FILES.items():
                page = functools.partial(export_talk, data, bool(ending))
                download(label, page, f"{stem}{ending}.html", words)
    if data is None:
        found = recorded_runs(talk)
        live = (f"{n}" for n, scene in enumerate(talk.scenes, 1) if not found.keys() >= {*scene.runs})
        words = f"Not offered as an HTML file: scene {', '.join(live)} was not recorded."
        st.caption(f"{words} The app runs it before the talk begins.")


show()
