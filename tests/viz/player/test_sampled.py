"""A grid in which some query tiles alone have a row: of a sample, and of a run with too many tiles."""

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.standard.traffic import standard_requested
from tests.anywhere import ANYWHERE
from tests.viz.player.runs import GPU, SAMPLE
from tests.viz.player.runs import SAMPLED as PROBLEM
from tests.viz.player.test_data import decode
from viz.player import drawn as drawn_steps
from viz.player.data import duel_data, player_data
from viz.player.tiles import tile_kinds

ENTRY = ALGORITHMS["flash2"]


@pytest.fixture(scope="module")
def trace():
    return run_traced(PROBLEM, "flash2", SAMPLE)


@pytest.fixture(scope="module")
def sampled(trace):
    return player_data(trace, "here", GPU)


def test_the_sampled_tiles_have_a_row_each_and_the_player_says_so(trace, sampled):
    assert sampled["notes"] == ["sample: 1 of 2 heads, 3 of 5 query tiles"]
    assert sampled["problem"]["tile_numbers"] == [0, 2, 4]
    assert sampled["problem"]["q_tiles"] == 3
    assert np.array_equal(np.array([0, 2, 4])[decode(sampled["steps"]["q"], "int32")], trace.q_tile)
    kinds = decode(sampled["kinds"], "uint8").reshape(3, -1)
    assert np.array_equal(kinds, tile_kinds(PROBLEM, ENTRY)[[0, 2, 4]])
    assert not sampled["clock"]["measured"]
    rows = 16 + 16 + 13
    assert sampled["standard_bytes"] == round(standard_requested(PROBLEM) * rows / (2 * 77))
    assert sampled["standard_words"] == "standard, same rows"
    other = run_traced(PROBLEM)
    assert "A is a sample" in duel_data((trace, ""), (other, ""), GPU)["clock_words"]
    assert "sample" not in duel_data((other, ""), (other, ""), GPU)["clock_words"]


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_a_grid_that_is_too_large_has_rows_for_the_drawn_tiles(algorithm, monkeypatch):
    monkeypatch.setattr(drawn_steps, "MAX_CELLS", 15)
    problem = PROBLEM.with_(q_heads=1, kv_heads=1)
    trace = run_traced(problem, algorithm)
    data = player_data(trace, "here", GPU)
    numbers = data["problem"]["tile_numbers"]
    assert numbers[0] == 0
    assert numbers[-1] == trace.q_tile.max()
    assert data["problem"]["q_tiles"] == len(numbers) <= 3
    assert any("query tiles are drawn" in note for note in data["notes"])
    drawn = decode(data["steps"]["q"], "int32")
    assert drawn.min() >= -1
    assert drawn.max() == len(numbers) - 1
    kinds = decode(data["kinds"], "uint8").reshape(len(numbers), -1)
    assert np.array_equal(kinds, tile_kinds(problem, ALGORITHMS[algorithm])[numbers])
