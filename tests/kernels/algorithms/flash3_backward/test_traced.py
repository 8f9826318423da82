"""The traced sweep: what it writes down is what the plain kernel writes down, and what the formulas say."""

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.flash3.launch import flash_forward_hopper
from kernels.algorithms.flash3_backward.launch import flash_backward_hopper
from kernels.device.runtime import DEVICE
from kernels.oracle.rule import judge_trace
from kernels.primitives.launch import TileConfig
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.helpers import on_hopper

pytestmark = [pytest.mark.gpu, on_hopper]
ENTRY = ALGORITHMS["flash3_backward"]
PROBLEMS = {
    "full": AttentionProblem(q_len=256, kv_len=256, head_dim=64, q_heads=2, kv_heads=2),
    "full-long-rows": AttentionProblem(q_len=256, kv_len=384, head_dim=128, q_heads=2, kv_heads=2),
    "causal-ragged-gqa": AttentionProblem(
        q_len=130, kv_len=200, head_dim=96, mask="causal", q_heads=4, kv_heads=2, batch=2
    ),
    "rows-without-a-key": AttentionProblem(q_len=300, kv_len=100, head_dim=40, mask="causal"),
    "keys-without-a-row": AttentionProblem(
        q_len=100,
        kv_len=400,
        head_dim=128,
        mask="window",
        window_left=20,
        window_right=5,
        dtype="bfloat16",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_counts_the_bytes_of_the_formulas(name):
    problem = ENTRY.with_own_tiles(PROBLEMS[name])
    trace = run_traced(problem, ENTRY.name)
    for number, kernel in enumerate(ENTRY.kernels):
        steps = trace.kernel == number
        counted = trace.tensor_bytes_read[steps].sum() + trace.tensor_bytes_written[steps].sum()
        assert counted == kernel.requested_bytes(problem), kernel.name


@pytest.mark.parametrize("name", PROBLEMS)
def test_its_steps_and_sums_are_those_of_the_plain_kernel(name):
    problem = ENTRY.with_own_tiles(PROBLEMS[name])
    sweep, plain = run_traced(problem, ENTRY.name), run_traced(problem, "backward")
    ours, theirs = sweep.kernel == 1, plain.kernel == plain.kernels.index("_attn_bwd_dk_dv")

    def by_tile(trace, steps):
        """Steps by head and tiles; those that only load or store keys are left out."""
        found = [step for step in np.flatnonzero(steps) if trace.q_tile[step] >= 0]
        places = [(trace.batch_head[step], trace.q_tile[step], trace.kv_tile[step]) for step in found]
        return dict(zip(places, found, strict=True))

    one, other = by_tile(sweep, ours), by_tile(plain, theirs)
    assert one.keys() == other.keys()
    atol = {"float16": 2e-3, "bfloat16": 2e-2}[problem.dtype]
    for place, step in one.items():
        same = other[place]
        for field in ("row_share", "acc_dk", "acc_dv"):
            got, wanted = getattr(sweep, field)[step], getattr(plain, field)[same]
            np.testing.assert_allclose(got, wanted, rtol=atol, atol=atol * max(1, np.nanmax(np.abs(wanted))))


@pytest.mark.parametrize("name", PROBLEMS)
def test_tracing_changes_no_bit_of_dk_and_dv(name):
    problem = ENTRY.with_own_tiles(PROBLEMS[name])
    trace = run_traced(problem, ENTRY.name)
    assert judge_trace(trace).passes
    query, key, value = make_inputs(problem, DEVICE)
    band, scale = problem.band, problem.scale
    config = TileConfig(128, 128, 12, 2)
    out, lse, _ = flash_forward_hopper(query, key, value, band=band, scale=scale, config=config)
    d_out = make_d_output(problem, DEVICE)
    plain = flash_backward_hopper(BackwardInputs(query, key, value, out, lse, d_out, band, scale))
    assert np.array_equal(trace.d_key, plain[1].float().cpu().numpy())
    assert np.array_equal(trace.d_value, plain[2].float().cpu().numpy())
