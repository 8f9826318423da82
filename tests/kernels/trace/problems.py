"""Problems whose traces are held against others."""

import pytest

from tests.kernels.helpers import problem_id, tiny

PROBLEMS = [
    tiny(32, 64, 16, 32),
    tiny(20, 37, mask="causal", head_dim=24, dtype="bfloat16"),
    tiny(37, 20, mask="causal", head_dim=20, dtype="float32"),
    tiny(9, 20, batch=2, q_heads=4, kv_heads=2),
    tiny(9, 13, 4, 8, mask="causal", inputs="growing_max"),
    tiny(20, 32, inputs="large"),
    tiny(60, 50, mask="window", window_left=9, window_right=4),
]
traced = pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)
