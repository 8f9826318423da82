"""Each example of the folder, run as its first lines say. The notebook is run in `tests/viz/player/`, the
transformers' attention in `tests/kernels/attention/`, the site in `tests/viz/site/`."""

from examples import test_my_kernel as of_a_kernel
from tests import ROOT
from viz.player.talk.data import talk_data
from viz.player.talk.read import read_talk
from viz.talk.shipped import measured, recorded_runs


def test_a_test_of_a_kernel_passes(capsys):
    of_a_kernel.test_my_kernel_is_right(of_a_kernel.CASES[1])
    assert capsys.readouterr().out.startswith("PASS")


def test_the_talk_is_accepted_and_all_its_runs_are_recorded():
    talk = read_talk(ROOT / "examples" / "my_talk.toml")
    runs = recorded_runs(talk)
    assert runs.keys() == set(talk.runs)
    assert len(talk_data(talk, runs, measured)["scenes"]) == len(talk.scenes)
