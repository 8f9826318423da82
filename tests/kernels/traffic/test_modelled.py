"""Modelled traffic against numbers of the papers, and against each other."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.standard.traffic import standard_bytes, standard_ledger, standard_stages
from kernels.device.gpus import GPUS
from kernels.oracle.naive import visible_mask
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import attention_flops, compulsory_bytes, forward_flops, least_bytes, stores_lse
from tests.kernels.helpers import problem_id

BASE = AttentionProblem(q_len=40, kv_len=40, head_dim=16, block_m=16, block_n=16)
PROBLEMS = [
    BASE.with_(block_m=64, block_n=64),
    BASE.with_(mask="causal", batch=2, q_heads=4, kv_heads=2),
    BASE.with_(mask="causal", q_len=70, block_m=32),
    BASE.with_(mask="window", window_left=3, window_right=2, q_len=6, kv_len=90),
    BASE.with_(mask="window", window_left=9, window_right=4, q_len=90, kv_len=20),
    BASE.with_(q_len=1, kv_len=90, kv_splits=3, dtype="float32"),
]
"""Among them: one tile alone, rows that see no key, keys that no row sees, decoding."""


def test_standard_attention_moves_four_square_matrices_beside_its_inputs():
    problem = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
    square, matrix = 1024 * 1024 * 2, 1024 * 64 * 2
    assert standard_bytes(problem) == 4 * square + 4 * matrix
    assert sum(standard_ledger(problem).values()) == standard_bytes(problem)


def test_the_slides_example_is_reproduced():
    """Chu, Liu and Lin 2026: T = 1024, d = 64, float16, A100: 0.86 us of arithmetic, 4 us of traffic."""
    problem, gpu = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64), GPUS["A100"]
    assert forward_flops(problem) / gpu.fp16_flops * 1e6 == pytest.approx(0.86, abs=0.005)
    score_accesses = 4 * 1024 * 1024 * 2
    assert score_accesses / gpu.hbm_bandwidth * 1e6 == pytest.approx(4.1, abs=0.05)


def test_flash_requests_lie_between_compulsory_and_standard_for_long_sequences():
    problem = AttentionProblem(q_len=4096, kv_len=4096, head_dim=64, block_m=128)
    assert compulsory_bytes(problem) < ALGORITHMS["flash2"].requested_bytes(problem) < standard_bytes(problem)
    causal = problem.with_(mask="causal")
    assert ALGORITHMS["flash2"].requested_bytes(causal) < 0.6 * ALGORITHMS["flash2"].requested_bytes(problem)
    assert forward_flops(causal) == forward_flops(problem) // 2


def test_compulsory_bytes_of_a_backward_pass():
    problem = AttentionProblem(q_heads=4, kv_heads=2, q_len=10, kv_len=20, head_dim=16)
    rows, keys = 4 * 10, 2 * 20
    assert compulsory_bytes(problem, "backward") == (4 * rows + 4 * keys) * 16 * 2 + rows * 4


@pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)
def test_only_what_the_mask_leaves_has_to_be_read(problem):
    visible = visible_mask(problem.band)
    row_bytes = problem.head_dim * problem.itemsize
    rows_read = problem.heads * int(visible.any(dim=1).sum())
    keys_read = problem.key_heads * int(visible.any(dim=0).sum())
    rows = problem.heads * problem.q_len
    assert compulsory_bytes(problem) == (rows_read + 2 * keys_read + rows) * row_bytes + 4 * rows
    assert compulsory_bytes(problem, with_lse=False) == compulsory_bytes(problem) - 4 * rows
    backward = 4 * (rows_read + keys_read) * row_bytes + 4 * rows_read
    assert compulsory_bytes(problem, "backward") == backward


@pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_moves_less_than_the_least(algorithm, problem):
    least = least_bytes(problem, ALGORITHMS[algorithm])
    assert run_traced(problem, algorithm).total_bytes >= least
    if ALGORITHMS[algorithm].has_formula:
        assert ALGORITHMS[algorithm].requested_bytes(problem) >= least


def test_the_least_is_of_the_same_results():
    """Row-wise attention stores no lse; on one tile it moves exactly the least without it."""
    problem = PROBLEMS[0]
    assert stores_lse(ALGORITHMS["flash2"])
    assert not stores_lse(ALGORITHMS["row_wise"])
    assert run_traced(problem, "row_wise").total_bytes == least_bytes(problem, ALGORITHMS["row_wise"])
    assert run_traced(problem, "flash2").total_bytes == least_bytes(problem, ALGORITHMS["flash2"])


def test_a_backward_pass_counts_as_two_and_a_half_forward_passes():
    problem = AttentionProblem(q_len=64, kv_len=32, head_dim=16, mask="causal")
    assert attention_flops(problem, "forward") == forward_flops(problem) == 2 * 64 * 32 * 16
    assert attention_flops(problem, "backward") == 5 * 64 * 32 * 16


def test_stages_and_parts_have_sizes_one_can_check_by_hand():
    problem = AttentionProblem(q_len=8, kv_len=8, head_dim=16, block_m=4, block_n=8, dtype="float32")
    score = standard_stages(problem)[0]
    assert (score.bytes_read, score.bytes_written, score.flops) == (2 * 8 * 16 * 4, 8 * 8 * 4, 2 * 8 * 8 * 16)
    assert score.intensity == pytest.approx(2048 / 1280)
    assert {part.name: part.bytes_of(problem) for part in ALGORITHMS["flash2"].kernels[0].parts} == {
        "Q": 256,
        "K": 512,
        "V": 512,
        "S, P": 128,
        "O": 256,
        "m, l": 32,
    }
