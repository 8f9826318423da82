"""The formulas for requested bytes equal, to the byte, what a trace of the same problem counts."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from tests.anywhere import ANYWHERE
from tests.kernels.helpers import tiny

PROBLEMS = {
    "full": tiny(32, 64, 16, 32),
    "causal-ragged-gqa": tiny(34, 50, 16, 32, mask="causal", head_dim=24, q_heads=2, kv_heads=1),
    "rows-without-a-key": tiny(50, 34, mask="causal", dtype="float32"),
    "window": tiny(30, 80, mask="window", window_left=20, window_right=5),
}
WITH_FORMULA = [name for name in ANYWHERE if ALGORITHMS[name].has_formula]


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("algorithm", WITH_FORMULA)
def test_a_formula_gives_every_counted_byte(problem, algorithm):
    assert ALGORITHMS[algorithm].requested_bytes(problem) == run_traced(problem, algorithm).total_bytes
