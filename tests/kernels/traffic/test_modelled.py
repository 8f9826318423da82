"""Modelled traffic against numbers of the papers, and against each other."""

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_bytes, standard_ledger, standard_stages
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import attention_flops, compulsory_bytes, forward_flops


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
