"""The formulas for requested bytes equal, to the byte, what a trace of the same problem counts."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from tests.anywhere import ANYWHERE

PROBLEMS = {
    "full": AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=32),
    "causal-ragged-gqa": AttentionProblem(
        q_len=50, kv_len=70, head_dim=24, block_m=16, block_n=32, mask="causal", q_heads=2, kv_heads=1
    ),
    "rows-without-a-key": AttentionProblem(
        q_len=70, kv_len=50, head_dim=16, block_m=16, block_n=16, mask="causal", dtype="float32"
    ),
    "window": AttentionProblem(
        q_len=40,
        kv_len=120,
        head_dim=16,
        block_m=16,
        block_n=16,
        mask="window",
        window_left=20,
        window_right=5,
    ),
}
WITH_FORMULA = [name for name in ANYWHERE if ALGORITHMS[name].has_formula]


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("algorithm", WITH_FORMULA)
def test_a_formula_gives_every_counted_byte(problem, algorithm):
    assert ALGORITHMS[algorithm].requested_bytes(problem) == run_traced(problem, algorithm).total_bytes
