"""Problems whose traces are held against others."""

import pytest

from kernels.problem import AttentionProblem
from tests.kernels.helpers import problem_id

PROBLEMS = [
    AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=32),
    AttentionProblem(
        q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=16, mask="causal", dtype="bfloat16"
    ),
    AttentionProblem(q_len=45, kv_len=77, head_dim=24, block_m=16, block_n=16, mask="causal"),
    AttentionProblem(
        q_len=77, kv_len=45, head_dim=20, block_m=16, block_n=16, mask="causal", dtype="float32"
    ),
    AttentionProblem(
        q_len=33, kv_len=50, head_dim=16, block_m=16, block_n=16, batch=2, q_heads=4, kv_heads=2
    ),
    AttentionProblem(
        q_len=17, kv_len=13, head_dim=16, block_m=4, block_n=8, mask="causal", inputs="growing_max"
    ),
    AttentionProblem(q_len=40, kv_len=64, head_dim=16, block_m=16, block_n=16, inputs="large"),
    AttentionProblem(
        q_len=60, kv_len=50, head_dim=16, block_m=16, block_n=16, mask="window", window_left=9, window_right=4
    ),
]


traced = pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)
