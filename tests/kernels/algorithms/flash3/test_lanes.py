"""Lanes of the kernels on a GPU."""

import numpy as np
import pytest

from kernels.algorithms import lane_kernel, run_lanes
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles

pytestmark = pytest.mark.gpu


def problem_of(head_dim, mask, block_n=128):
    sizes = {"q_heads": 4, "kv_heads": 2, "q_len": 640, "kv_len": 640}
    return AttentionProblem(**sizes, head_dim=head_dim, mask=mask, block_m=128, block_n=block_n)


@pytest.mark.parametrize("kernel", ["flash2", "flash3"])
@pytest.mark.parametrize(
    ("head_dim", "mask"), [(64, "full"), (64, "causal"), (128, "window"), (256, "causal")]
)
def test_every_lane_multiplies_every_visited_tile_once(kernel, head_dim, mask):
    """But with head_dim over 128 a warpgroup of flash3 passes over tiles that are hidden from its rows."""
    problem = problem_of(head_dim, mask, 64 if head_dim > 128 else 128)
    lanes = run_lanes(problem, kernel)
    passes_over = kernel == "flash3" and head_dim > 128

    def seen_by(warpgroup, q_tile):
        if passes_over:
            return visited_tiles(problem.with_(block_m=64), 2 * q_tile + warpgroup)
        return visited_tiles(problem, q_tile)

    for name in ("QK^T", "PV"):
        number = [own for own, _ in lanes.activities].index(name)
        for lane, label in enumerate(lanes.lanes):
            if label == "loads":
                continue
            own = (lanes.event_activity == number) & (lanes.event_lane == lane)
            columns = (lanes.event_batch_head, lanes.event_q_tile, lanes.event_kv_tile)
            assert sorted(zip(*(each[own].tolist() for each in columns), strict=True)) == [
                (head, q_tile, kv_tile)
                for head in range(problem.heads)
                for q_tile in range(problem.q_tiles)
                for kv_tile in range(seen_by(lane, q_tile).first, seen_by(lane, q_tile).end)
            ]


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_with_head_dim_64_one_warpgroup_of_a_program_multiplies_at_a_time(mask):
    lanes = run_lanes(problem_of(64, mask), "flash3")
    number = [own for own, _ in lanes.activities].index("QK^T")
    for program in np.unique(lanes.event_program):
        own = (lanes.event_activity == number) & (lanes.event_program == program)
        order = np.argsort(lanes.event_begin_ns[own])
        begins, ends = (each[own][order] for each in (lanes.event_begin_ns, lanes.event_end_ns))
        assert len(np.unique(lanes.event_lane[own])) == 2
        assert (ends[:-1] <= begins[1:]).all()


@pytest.mark.parametrize(
    ("kernel", "head_dim"),
    [("flash2", 128), ("flash3", 64), ("flash3", 256), ("backward_sweep", 64), ("backward_sweep", 128)],
)
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_the_times_of_lanes_lie_in_their_programs_and_shares_are_shares(kernel, head_dim, mask):
    problem = lane_kernel(kernel).with_own_tiles(problem_of(head_dim, mask))
    lanes = run_lanes(problem, kernel)
    assert len(lanes.event_program) > 0
    begins, ends = (each[lanes.event_program] for each in (lanes.program_begin_ns, lanes.program_end_ns))
    assert (lanes.event_begin_ns >= begins - 1).all()
    assert (lanes.event_end_ns <= ends + 1).all()
    assert (lanes.event_end_ns >= lanes.event_begin_ns).all()
    assert 0 < lanes.product_share <= 1
    assert -1e-9 <= lanes.hidden_share <= 1 + 1e-9
    assert all(0 <= share <= 1 for share in lanes.wait_shares.values())
    assert 0.5 < lanes.clock_ghz < 3
    assert np.isin(lanes.program_sm, lanes.sm).all()
