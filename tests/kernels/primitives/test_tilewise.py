"""Standard and row-wise attention, tile by tile in torch: results, rows of P, and what moves."""

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.standard.traffic import standard_requested
from kernels.device.runtime import DEVICE
from kernels.oracle.rule import judge_trace
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_inputs
from tests.kernels.helpers import tiny
from tests.kernels.oracle.intermediates import oracle

PROBLEMS = {
    "full": tiny(48, 64),
    "causal": tiny(40, 56, mask="causal", head_dim=24, q_heads=2, kv_heads=1, dtype="float32"),
    "no key": tiny(48, 16, mask="causal", dtype="bfloat16"),
    "window": tiny(50, 50, 16, 8, mask="window", window_left=9, window_right=2, batch=2),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("algorithm", ["standard", "row_wise"])
def test_results_are_right_rows_of_p_are_whole_and_no_matrix_of_row_wise_attention_moves(algorithm, problem):
    trace = run_traced(problem, algorithm)
    assert judge_trace(trace).passes
    exact = oracle(*make_inputs(problem, DEVICE), scale=problem.scale, band=problem.band).lse
    # S is rounded to the type of the inputs in HBM.
    tolerance = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}[problem.dtype]
    torch.testing.assert_close(torch.from_numpy(trace.lse).double(), exact, atol=tolerance, rtol=tolerance)
    for head, tile in np.ndindex(problem.heads, problem.q_tiles):
        is_last = trace.kernel == len(trace.kernels) - 1
        own = is_last & (trace.batch_head == head) & (trace.q_tile == tile)
        lse = trace.lse.reshape(-1, problem.q_len)[head, tile * problem.block_m :][: problem.block_m]
        np.testing.assert_allclose(trace.row_share[own].sum(axis=0)[: len(lse)], np.isfinite(lse), atol=2e-2)
    entry = ALGORITHMS[algorithm]
    assert not entry.has_formula or trace.total_bytes == entry.requested_bytes(problem)
    if algorithm == "standard":
        assert trace.total_bytes == standard_requested(problem)
    else:
        assert set(trace.tensors) == {"Q", "K", "V", "O"}


def test_a_trace_that_would_not_fit_is_refused():
    with pytest.raises(InvalidProblem, match=r"at most 1\.1 GB is recorded"):
        run_traced(AttentionProblem(q_len=1 << 17, kv_len=1 << 17), "standard")
