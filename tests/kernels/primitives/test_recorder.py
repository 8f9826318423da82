"""Buffers of a traced launch: their shapes, what stands in them before a kernel runs, and their limits."""

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS
from kernels.primitives import recorder
from kernels.primitives.recorder import make_recorder, read_columns, write_columns
from kernels.problem import AttentionProblem, InvalidProblem

PROBLEM = AttentionProblem(q_len=10, kv_len=21, head_dim=24, block_m=4, block_n=8)
FORWARD, DK_DV = ALGORITHMS["flash2"].kernels[0], ALGORITHMS["backward"].kernels[1]


def made(kernel=FORWARD, **changes):
    """Six slots: three programs of two steps."""
    return make_recorder(kernel, PROBLEM, **{"grid": (3, 2)} | changes)


def test_what_no_program_wrote_is_seen():
    buffers = made().buffers
    assert [buffer.dtype for buffer in buffers[:4]] == [torch.int32, torch.float32, torch.int32, torch.int64]
    assert (buffers.where == -1).all()
    assert (buffers.clock == -1).all()
    assert (buffers.requested == 0).all()
    for values in (buffers.rows, buffers.acc):
        assert values.dtype == torch.float32
        assert values.isnan().all()


@pytest.mark.parametrize(("kernel", "needed"), [(FORWARD, 6 * 4 * 32 * 4), (DK_DV, 6 * 2 * 8 * 32 * 4)])
def test_accumulators_are_recorded_up_to_the_limit_and_then_all_left_out(kernel, needed, monkeypatch):
    monkeypatch.setattr(recorder, "ACC_LIMIT_BYTES", needed)
    assert made(kernel).with_acc
    monkeypatch.setattr(recorder, "ACC_LIMIT_BYTES", needed - 1)
    assert not made(kernel).with_acc
    assert made(kernel).buffers.acc is None


def test_without_a_grid_there_is_a_program_per_tile_that_stays():
    """3 query tiles and 3 key tiles."""
    without_a_step = ALGORITHMS["backward"].kernels[0]
    for kernel, slots in ((FORWARD, 3 * 3), (DK_DV, 3 * 3), (without_a_step, 3)):
        assert len(make_recorder(kernel, PROBLEM).buffers.where) == slots
    assert not make_recorder(without_a_step, PROBLEM).with_acc


def test_a_trace_is_refused_if_its_rows_would_take_more_than_the_limit(monkeypatch):
    rows = 6 * 3 * 4 * 4
    monkeypatch.setattr(recorder, "BUFFER_LIMIT_BYTES", rows)
    assert made().max_steps == 2
    monkeypatch.setattr(recorder, "BUFFER_LIMIT_BYTES", rows - 1)
    with pytest.raises(InvalidProblem, match=r"its trace could have 6 steps and take 0\.0 GB"):
        made()


def test_rows_of_a_tile_exist_up_to_the_end_of_the_matrix():
    """10 queries in tiles of 4, 21 keys in tiles of 8; a step about no tile counts as about the first."""
    steps = {"q_tile": np.array([0, 2, -1]), "kv_tile": np.array([-1, 1, 2])}
    assert made().rows_exist(steps).sum(axis=1).tolist() == [4, 2, 4]
    assert made().rows_exist(steps)[1].tolist() == [True, True, False, False]
    assert made().rows_exist(steps, "kv_tile").sum(axis=1).tolist() == [8, 8, 5]
    assert made(rows=2).rows_exist(steps).sum(axis=1).tolist() == [2, 0, 2]
    assert made(rows=40, block_m=16).rows_exist(steps).sum(axis=1).tolist() == [16, 8, 16]


def test_a_tensor_has_one_column_for_reads_and_one_for_writes():
    kernel = ALGORITHMS["backward_q_outer"].kernels[0]
    for columns, direction in ((read_columns, "read"), (write_columns, "write")):
        found = [column.value for column in columns(kernel, "dK", "dV")]
        assert [kernel.requests[column] for column in found] == [("dK", direction), ("dV", direction)]
