"""A query tile that sees no key has one entry in the trace: the state that its program started with."""

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem


@pytest.mark.parametrize("block_m", [16, 32])
def test_a_tile_without_a_key_rescales_nothing(block_m, poisoned):
    """The first 32 queries of 48 lie before the first of 16 keys."""
    problem = AttentionProblem(
        q_len=48, kv_len=16, head_dim=16, block_m=block_m, block_n=16, mask="causal", q_heads=2, kv_heads=2
    )
    trace = run_traced(problem, "flash2")
    keyless = np.flatnonzero(trace.kv_tile < 0)
    assert sorted(trace.q_tile[keyless].tolist()) == sorted([*range(32 // block_m)] * 2)
    assert (trace.row_max[keyless] == -np.inf).all()
    assert (trace.row_sum[keyless] == 0).all()
    assert (trace.alpha[keyless] == 1).all()
