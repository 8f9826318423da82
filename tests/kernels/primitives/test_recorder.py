"""Buffers of a traced launch: their shapes, what stands in them before a kernel runs, and their limits."""

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.primitives import recorder
from kernels.primitives.recorder import make_recorder
from kernels.problem import AttentionProblem, InvalidProblem

PROBLEM = AttentionProblem(q_len=10, kv_len=21, head_dim=24, block_m=4, block_n=8)
FORWARD, DK_DV = ALGORITHMS["flash2"].kernels[0], ALGORITHMS["backward"].kernels[1]


def made(kernel=FORWARD, **changes):
    """Six slots: three programs of two steps."""
    return make_recorder(kernel, PROBLEM, **{"grid": (3, 2)} | changes)


@pytest.mark.parametrize(("kernel", "needed"), [(FORWARD, 6 * 4 * 32 * 4), (DK_DV, 6 * 2 * 8 * 32 * 4)])
def test_accumulators_are_recorded_up_to_the_limit_and_then_all_left_out(kernel, needed, monkeypatch):
    monkeypatch.setattr(recorder, "ACC_LIMIT_BYTES", needed)
    assert made(kernel).buffers.acc is not None
    monkeypatch.setattr(recorder, "ACC_LIMIT_BYTES", needed - 1)
    assert made(kernel).buffers.acc is None
    assert made(kernel).buffers.acc is None


def test_a_trace_is_refused_if_its_rows_would_take_more_than_the_limit(monkeypatch):
    rows = 6 * 3 * 4 * 4
    monkeypatch.setattr(recorder, "BUFFER_LIMIT_BYTES", rows)
    assert made().max_steps == 2
    monkeypatch.setattr(recorder, "BUFFER_LIMIT_BYTES", rows - 1)
    with pytest.raises(InvalidProblem, match=r"its trace could have 6 steps and take 0\.0 GB"):
        made()
