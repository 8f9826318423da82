"""Standard and row-wise attention, tile by tile in torch: results, and modelled bytes plus repeated reads."""

import numpy as np
import pytest
import torch

from kernels.algorithms import run_traced
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.device.runtime import DEVICE
from kernels.oracle.rule import judge_trace
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_inputs
from kernels.traffic.modelled import compulsory_bytes
from tests.kernels.helpers import tiny
from tests.kernels.oracle.intermediates import oracle

PROBLEMS = {
    "full": tiny(48, 64),
    "causal": tiny(40, 56, mask="causal", head_dim=24, q_heads=2, kv_heads=1, dtype="float32"),
    "no key": tiny(48, 16, mask="causal", dtype="bfloat16"),
    "window": tiny(50, 50, 16, 8, mask="window", window_left=9, window_right=2, batch=2),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


def bytes_of(trace, tensor):
    at = trace.tensors.index(tensor)
    return int(trace.tensor_bytes_read[:, at].sum()), int(trace.tensor_bytes_written[:, at].sum())


@pytest.mark.parametrize("algorithm", ["standard", "row_wise"])
def test_output_and_lse_are_right(problem, algorithm):
    trace = run_traced(problem, algorithm)
    assert judge_trace(trace).passes
    exact = oracle(*make_inputs(problem, DEVICE), scale=problem.scale, band=problem.band).lse
    # S is rounded to the type of the inputs in HBM.
    tolerance = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}[problem.dtype]
    torch.testing.assert_close(torch.from_numpy(trace.lse).double(), exact, atol=tolerance, rtol=tolerance)


def test_standard_attention_moves_what_the_model_says_and_reads_k_and_v_again(problem):
    trace = run_traced(problem, "standard")
    heads = problem.batch * problem.q_heads
    square = heads * problem.q_len * problem.kv_len * problem.itemsize
    assert bytes_of(trace, "S") == (square, square)
    assert bytes_of(trace, "P") == (square, square)
    keys = heads * problem.kv_len * problem.head_dim * problem.itemsize
    assert bytes_of(trace, "K") == bytes_of(trace, "V") == (problem.q_tiles * keys, 0)
    again = 2 * (problem.q_tiles - 1) * keys
    assert trace.total_bytes == standard_bytes(problem) + again


def test_row_wise_moves_no_matrix_of_scores(problem):
    trace = run_traced(problem, "row_wise")
    heads = problem.batch * problem.q_heads
    keys = heads * problem.kv_len * problem.head_dim * problem.itemsize
    rows = heads * problem.q_len * problem.head_dim * problem.itemsize
    assert trace.total_bytes == 2 * rows + 2 * problem.q_tiles * keys
    assert (
        trace.total_bytes
        >= compulsory_bytes(problem.with_(kv_heads=problem.q_heads)) - 4 * heads * problem.q_len
    )


@pytest.mark.parametrize("algorithm", ["standard", "row_wise"])
def test_rows_of_p_are_whole_and_the_output_arrives(problem, algorithm):
    trace = run_traced(problem, algorithm)
    last = len(trace.kernels) - 1
    for head in np.unique(trace.batch_head):
        for tile in range(problem.q_tiles):
            own = (trace.kernel == last) & (trace.batch_head == head) & (trace.q_tile == tile)
            total = trace.row_share[own].sum(axis=0)
            rows = min(problem.q_len - tile * problem.block_m, problem.block_m)
            exact = np.where(
                np.isfinite(trace.lse.reshape(-1, problem.q_len)[head, tile * problem.block_m :][:rows]), 1, 0
            )
            np.testing.assert_allclose(total[:rows], exact, atol=2e-2)
            assert np.nanmax(trace.output_distance[own][-1]) <= 2e-2


def test_a_trace_that_would_not_fit_is_refused():
    with pytest.raises(InvalidProblem, match=r"at most 1\.1 GB is recorded"):
        run_traced(AttentionProblem(q_len=1 << 17, kv_len=1 << 17), "standard")
