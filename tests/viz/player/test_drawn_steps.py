"""What is drawn of a sample, and of a long trace: some heads and tiles, or steps that stand for several."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, algorithm_of, run_traced
from kernels.algorithms.standard.traffic import standard_requested
from kernels.device.gpus import GPUS
from tests.anywhere import ANYWHERE
from tests.viz.player.runs import GPU, PROBLEM, SAMPLE, hand_built
from tests.viz.player.runs import SAMPLED as SAMPLED
from tests.viz.player.test_data import bytes_of, decode, values_of
from viz.player import drawn
from viz.player.data import player_data
from viz.player.tiles import tile_kinds

ENTRY = ALGORITHMS["flash2"]


@pytest.fixture(scope="module")
def trace():
    return run_traced(SAMPLED, "flash2", SAMPLE)


@pytest.fixture(scope="module")
def sampled(trace):
    return player_data(trace, "here", GPU)


def test_the_sampled_tiles_have_a_row_each_and_the_player_says_so(trace, sampled):
    assert sampled["notes"] == ["sample: 1 of 2 heads, 3 of 5 query tiles"]
    assert sampled["problem"]["tile_numbers"] == [0, 2, 4]
    assert sampled["problem"]["q_tiles"] == 3
    assert np.array_equal(np.array([0, 2, 4])[decode(sampled["steps"]["q"], "int32")], trace.q_tile)
    kinds = decode(sampled["kinds"], "uint8").reshape(3, -1)
    assert np.array_equal(kinds, tile_kinds(SAMPLED, ENTRY)[[0, 2, 4]])
    assert not sampled["clock"]["measured"]
    assert sampled["sms"] == 0  # of a sample it is not known which of them work
    rows = 16 + 16 + 13
    assert sampled["standard_bytes"] == round(standard_requested(SAMPLED) * rows / (2 * 77))
    assert sampled["standard_words"] == "Standard, same rows"


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_a_grid_that_is_too_large_has_rows_for_the_drawn_tiles(algorithm, monkeypatch):
    monkeypatch.setattr(drawn, "MAX_CELLS", 15)
    problem = SAMPLED.with_(q_heads=1, kv_heads=1)
    trace = run_traced(problem, algorithm)
    data = player_data(trace, "here", GPU)
    numbers = data["problem"]["tile_numbers"]
    assert numbers[0] == 0
    assert numbers[-1] == trace.q_tile.max()
    assert data["problem"]["q_tiles"] == len(numbers) <= 3
    assert any("query tiles are drawn" in note for note in data["notes"])
    tiles = decode(data["steps"]["q"], "int32")
    assert tiles.min() >= -1
    assert tiles.max() == len(numbers) - 1
    kinds = decode(data["kinds"], "uint8").reshape(len(numbers), -1)
    assert np.array_equal(kinds, tile_kinds(problem, ALGORITHMS[algorithm])[numbers])


SELECT_STEPS = drawn.select_steps


def select_steps(trace, limit=drawn.MAX_STEPS):
    return SELECT_STEPS(trace, algorithm_of(trace), limit)


@pytest.mark.parametrize(
    ("problem", "limit", "note"),
    [
        (PROBLEM.with_(q_heads=8, kv_heads=8), 40, "4 of 8 heads are drawn"),
        (PROBLEM, 5, "2 of 4 query tiles are drawn"),
        (PROBLEM, 10, ""),
        (
            PROBLEM.with_(q_len=16, kv_len=160, mask="full"),
            4,
            "3 consecutive key tiles are drawn as one step",
        ),
    ],
    ids=["heads", "query tiles", "all", "key tiles"],
)
def test_too_many_steps_are_sampled_or_grouped_and_the_page_is_told(problem, limit, note):
    trace = hand_built(problem)
    selection = select_steps(trace, limit)
    assert len(selection.first) <= limit
    assert "".join(selection.notes) == note
    assert (trace.program[selection.first] == trace.program[selection.last]).all()


@pytest.mark.parametrize(
    ("problem", "limit", "rows"),
    [
        (PROBLEM.with_(q_heads=8, kv_heads=8), 40, 4 * 64),
        (PROBLEM.with_(q_len=56), 7, 16 + 8),
        (PROBLEM, 10, 64),
    ],
    ids=["heads", "query tiles", "all"],
)
def test_bytes_are_those_of_what_is_drawn(monkeypatch, problem, limit, rows):
    trace = hand_built(problem)
    monkeypatch.setattr(drawn, "select_steps", lambda trace, algorithm: select_steps(trace, limit))
    data = player_data(trace, "", GPUS["A100"])
    share = rows / (problem.heads * problem.q_len)
    assert data["standard_bytes"] == round(share * standard_requested(problem))
    assert data["standard_words"] == ("Standard, same rows" if share < 1 else "Standard attention")


def test_grouped_steps_keep_all_bytes_and_all_attention(monkeypatch):
    problem = PROBLEM.with_(q_len=16, kv_len=160, mask="full")
    trace = hand_built(problem)
    monkeypatch.setattr(drawn, "select_steps", lambda trace, algorithm: select_steps(trace, 4))
    data = player_data(trace, "", GPUS["A100"])
    steps = data["steps"]
    assert (bytes_of(data, "read") + bytes_of(data, "written")).sum() == trace.total_bytes
    assert decode(steps["share"], "uint16").sum() / 65535 == pytest.approx(1, abs=1e-3)
    assert decode(steps["kv_end"], "int32").tolist() == [3, 6, 9, 10]


def test_a_grouped_step_rescales_by_all_its_factors_and_holds_all_its_shares(monkeypatch):
    plain = hand_built(PROBLEM.with_(q_len=16, kv_len=160, mask="full"))
    generator = np.random.default_rng(0)
    alpha, share = generator.random((2, plain.steps, 16), np.float32)
    share /= share.sum(axis=0)
    monkeypatch.setattr(drawn, "select_steps", lambda trace, algorithm: select_steps(trace, 4))
    data = player_data(replace(plain, alpha=alpha, row_share=share, weight=share), "", GPUS["A100"])
    groups = [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 10)]
    expected = {
        "alpha": [alpha[group].prod(axis=0) for group in groups],
        "share": [share[group].sum(axis=0) for group in groups],
        "weight": [share[group].sum(axis=0) for group in groups],
        "l": plain.row_sum[[2, 5, 8, 9]],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(values_of(data, name), values, atol=1e-5)
