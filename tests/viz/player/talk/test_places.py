"""Places of a scene that its run does not have are refused, with what was given and what is accepted."""

import pytest

from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.viz.player.runs import GPU
from viz.player.drawn import drawn_of
from viz.player.talk.data import talk_data
from viz.player.talk.read import parse_talk
from viz.player.talk.scene import InvalidTalk
from viz.talk.shipped import recorded_runs

SCENE = 'title = "t"\n[[scene]]\ntitle = "One"\nsentence = "s"\n'
LAST_OF_LAYER = drawn_of(recorded_run(PRESETS["layer"].problem, "flash2").trace, GPU).moments
"""The clock of a recording differs from one recording to the next."""


def loaded(fields):
    talk = parse_talk(SCENE + fields, "a.toml")
    return talk_data(talk, recorded_runs(talk))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('problem = "tiny"\nstep = "65"', "step: '65' is past the end; expected 0 to 64"),
        ('problem = "tiny"\nstep = "0.99"', r"step: '0.99' is not a phase of that step; expected 0.1 to 0.8"),
        (
            'problem = "layer"\nstep = "gpu:9999"',
            f"step: 'gpu:9999' is past the end; expected gpu:0 to gpu:{LAST_OF_LAYER}",
        ),
        ('problem = "tiny"\nrow = "1.0"', "row: '1.0' is past the end; expected head 0, such as 0.0 to 0.31"),
        ('problem = "llama3"\nrow = "0.5"', r"row: '0.5' is not among the rows .* the nearest is 0.4"),
        (
            'problem = "tiny"\nview = "numbers"\nstep = "9.2"\nrow = "0.20"',
            r"row: '0.20' is not in the tile that is shown; expected 0.4 to 0.7",
        ),
        (
            'problem = "tiny"\nversus = { algorithm = "flash1" }\nstep = "bytes:1001"',
            "step: 'bytes:1001' is past the end; expected bytes:0 to bytes:1000",
        ),
        ('problem = "tiny"\nview = "lanes"', "view: 'lanes', but this problem has no recorded lanes"),
    ],
)
def test_a_place_that_a_run_does_not_have_is_refused(fields, message):
    with pytest.raises(InvalidTalk, match=f"^a.toml, scene 1 “One”, {message}") as found:
        loaded(fields)
    assert str(found.value).endswith(".")


@pytest.mark.parametrize(
    "fields",
    [
        'problem = "tiny"\nstep = "0.8"\nstops = ["64"]\nrow = "0.31"',
        'problem = "tiny"\nview = "numbers"\nstep = "0.2"\nstops = ["9.2"]\nrow = "0.7"',
        f'problem = "layer"\nstep = "gpu:{LAST_OF_LAYER}"\nrow = "11.0"',
    ],
)
def test_the_last_places_are_accepted(fields):
    assert loaded(fields)["scenes"]
