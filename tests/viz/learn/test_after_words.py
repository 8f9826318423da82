"""Sentences of the last chapter that compare: they say what the numbers say."""

import pytest

from kernels.device.gpus import GPUS
from kernels.lessons.units import TileClocks, tile_clocks
from viz.learn.after_units import GENERATIONS, HEAD_DIMS, limit_words


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("share", [0.0, 0.25, 0.6, 1.0])
def test_the_unit_that_sets_the_limit_has_the_most_clocks(head_dim, share):
    clocks = {key: tile_clocks(key, GPUS[key], 128, 128, head_dim, share) for key in GENERATIONS}
    words = limit_words(clocks)
    for gpu, units in clocks.items():
        said = words.split(f" on the {gpu}")[0].rsplit("the ", 1)[1]
        named = {"tensor cores": "tensor_cores"}.get(said.split(" and ")[0], said.split(" and ")[0])
        assert getattr(units, named) == max(units.tensor_cores, units.exponentials, units.polynomial)


def test_a_tie_is_said():
    assert "tensor cores and exponentials on the B200" in limit_words({"B200": TileClocks(5, 5, 0)})
