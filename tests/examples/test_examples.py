"""Each example of the folder, run as its first lines say. The notebook is run in `tests/viz/player/`, the
transformers' attention in `tests/kernels/attention/`, the site in `tests/viz/site/`, the gate for kernels in
`tests/kernels/check/`."""

from tests import ROOT
from viz.player.talk.data import talk_data
from viz.player.talk.read import read_talk
from viz.talk.shipped import recorded_runs


def test_the_talk_is_accepted_and_all_its_runs_are_recorded():
    talk = read_talk(ROOT / "examples" / "my_talk.toml")
    runs = recorded_runs(talk)
    assert runs.keys() == set(talk.runs)
    assert len(talk_data(talk, runs)["scenes"]) == len(talk.scenes)
