"""Modelled traffic against numbers of the papers, and against each other."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.standard.traffic import (
    standard_bytes,
    standard_ledger,
    standard_requested,
    standard_stages,
)
from kernels.device.gpus import GPUS
from kernels.oracle.naive import visible_mask
from kernels.problem import AttentionProblem
from kernels.trace.schedule import modelled_ns, step_flops
from kernels.traffic.modelled import (
    attention_flops,
    compulsory_bytes,
    forward_flops,
    least_bytes,
    stores_lse,
)
from tests.anywhere import ANYWHERE
from tests.kernels.helpers import problem_id, tiny

BASE = tiny(40, 40)
PROBLEMS = [
    BASE.with_(block_m=64, block_n=64),
    BASE.with_(mask="causal", q_heads=2),
    BASE.with_(mask="causal", q_len=70, block_m=32),
    BASE.with_(mask="window", window_left=3, window_right=2, q_len=6, kv_len=90),
    BASE.with_(mask="window", window_left=9, window_right=4, q_len=90, kv_len=20),
    BASE.with_(q_len=1, kv_len=90, kv_splits=3, dtype="float32"),
]
"""Among them: one tile alone, rows that see no key, keys that no row sees, decoding."""


def test_standard_attention_moves_four_square_matrices_forward_and_seven_backward():
    """Backward: P and dP twice, dS three times; dO twice, and everything else once."""
    problem = tiny(10, 20, q_heads=4, kv_heads=2)
    rows, keys, square = 4 * 10 * 16 * 2, 4 * 20 * 16 * 2, 4 * 10 * 20 * 2
    assert standard_bytes(problem) == 4 * square + 2 * rows + 2 * keys
    assert standard_bytes(problem) == sum(standard_ledger(problem).values())
    once = {"Q": rows, "K": keys, "V": keys, "dQ": rows, "dK": keys, "dV": keys}
    squares = {"P": 2 * square, "dP": 2 * square, "dS": 3 * square}
    assert standard_ledger(problem, "backward") == once | squares | {"dO": 2 * rows}
    assert standard_bytes(problem, "backward") == 4 * rows + 4 * keys + 7 * square


def test_standard_attention_requests_what_its_own_run_does_and_backward_a_tile_for_each_product():
    for problem in PROBLEMS:
        assert standard_requested(problem) == ALGORITHMS["standard"].requested_bytes(problem)
    rows = 40 * 16 * 2  # 3 query tiles and 3 key tiles
    products = 4 * (rows + 3 * rows)  # dV, dP, dQ, dK: one matrix stays in tiles, another comes per tile
    assert standard_requested(BASE, "backward") == products + 7 * 40 * 40 * 2


def test_numbers_of_the_papers_are_reproduced():
    """Chu, Liu and Lin 2026: T = 1024, d = 64, float16, A100: 0.86 us of arithmetic, 4 us of traffic."""
    problem, gpu = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64), GPUS["A100"]
    assert forward_flops(problem) / gpu.fp16_flops * 1e6 == pytest.approx(0.86, abs=0.005)
    score_accesses = 4 * 1024 * 1024 * 2
    assert score_accesses / gpu.hbm_bandwidth * 1e6 == pytest.approx(4.1, abs=0.05)
    long = problem.with_(q_len=4096, kv_len=4096, block_m=128)
    requested = ALGORITHMS["flash2"].requested_bytes
    assert compulsory_bytes(long) < requested(long) < standard_bytes(long)
    assert requested(long.with_(mask="causal")) < 0.6 * requested(long)


@pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)
def test_only_what_the_mask_leaves_has_to_be_read(problem):
    visible = visible_mask(problem.band)
    row_bytes = problem.head_dim * problem.itemsize
    rows_read = problem.heads * int(visible.any(dim=1).sum())
    keys_read = problem.key_heads * int(visible.any(dim=0).sum())
    rows = problem.heads * problem.q_len
    without_lse = (rows_read + 2 * keys_read + rows) * row_bytes
    assert compulsory_bytes(problem, with_lse=False) == without_lse
    assert compulsory_bytes(problem) == without_lse + 4 * rows
    assert compulsory_bytes(problem, "backward") == 4 * (rows_read + keys_read) * row_bytes + 4 * rows_read


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_nothing_moves_less_than_the_least(algorithm):
    """On one tile FlashAttention-2 moves exactly the least, and row-wise attention that without lse."""
    entry = ALGORITHMS[algorithm]
    for problem in PROBLEMS if entry.has_formula else PROBLEMS[:1] + PROBLEMS[3:4]:
        moved = (
            entry.requested_bytes if entry.has_formula else lambda it: run_traced(it, algorithm).total_bytes
        )
        assert moved(problem) >= least_bytes(problem, entry), problem
    if algorithm in ("row_wise", "flash2"):
        assert run_traced(PROBLEMS[0], algorithm).total_bytes == least_bytes(PROBLEMS[0], entry)
    assert stores_lse(ALGORITHMS["flash2"])
    assert not stores_lse(ALGORITHMS["row_wise"])


WINDOW = {"mask": "window", "window_left": 128, "window_right": 0}


@pytest.mark.parametrize(
    ("shape", "pairs"),
    [
        ({"q_len": 4096, "kv_len": 128}, 4096 * 128),
        ({"q_len": 4096, "kv_len": 4096, "mask": "causal"}, 4096 * 4096 // 2),
        ({"q_len": 1, "kv_len": 1, "mask": "causal"}, 0.5),
        ({"q_len": 1, "kv_len": 4096, "mask": "causal"}, 4096),
        ({"q_len": 4096, "kv_len": 128, "mask": "causal"}, 128 * 129 // 2),
        ({"q_len": 4096, "kv_len": 4096} | WINDOW, 4096 * 129 - 128 * 129 // 2),
        ({"q_len": 1 << 20, "kv_len": 1 << 20} | WINDOW, (1 << 20) * 129 - 128 * 129 // 2),
        ({"q_len": 64, "kv_len": 64, "mask": "window", "window_left": 64, "window_right": 64}, 64 * 64),
    ],
    ids=str,
)
def test_flops_count_what_the_mask_leaves_and_half_if_causal_with_equal_lengths(shape, pairs):
    problem = AttentionProblem(batch=2, q_heads=3, kv_heads=3, head_dim=32, **shape)
    assert forward_flops(problem) == 4 * 6 * 32 * pairs
    assert attention_flops(problem, "backward") == 2.5 * forward_flops(problem)


def test_stages_and_parts_have_sizes_one_can_check_by_hand():
    problem = tiny(8, 8, 4, 8, dtype="float32")
    score = standard_stages(problem)[0]
    assert (score.bytes_moved, score.flops) == (2 * 8 * 16 * 4 + 8 * 8 * 4, 2 * 8 * 8 * 16)
    softmax, output = standard_stages(problem.with_(kv_len=24))[1:]
    assert (softmax.bytes_moved, softmax.flops) == (768 + 768, 3 * 8 * 24)
    assert output.bytes_moved == 768 + 1536 + 512
    parts = {part.name: part.bytes_of(problem) for part in ALGORITHMS["flash2"].kernels[0].parts}
    assert parts == {"Q": 256, "K": 512, "V": 512, "S, P": 128, "O": 256, "m, l": 32}


# --- FLOPs and time of each step ---

ROWS_WITHOUT_A_KEY = tiny(12, 8, 4, 8, mask="causal")
KEYS_WITHOUT_A_ROW = tiny(8, 32, 4, 8, mask="window", window_left=0)


@pytest.mark.parametrize("problem", [ROWS_WITHOUT_A_KEY, KEYS_WITHOUT_A_ROW], ids=["rows", "keys"])
def test_a_step_computes_the_products_of_its_tile_and_nothing_without_one(problem):
    """2 m n k each: four products for dK and dV, three for dQ; D is two operations per element of a tile."""
    trace = run_traced(problem, "backward")
    product = 2 * 4 * 8 * 16
    of_tile = {"_attn_bwd_preprocess": 0, "_attn_bwd_dk_dv": 4 * product, "_attn_bwd_dq": 3 * product}
    expected = [of_tile[trace.kernels[kernel]] for kernel in trace.kernel]
    alone = (trace.kv_tile < 0) | (trace.q_tile < 0)
    assert (alone & (trace.kernel > 0)).any()
    expected = np.where(alone, 0, expected) + np.where(trace.kernel == 0, 2 * 4 * 16, 0)
    assert step_flops(trace, ALGORITHMS["backward"]).tolist() == expected.tolist()


def test_a_step_takes_as_long_as_the_slower_of_moving_and_computing():
    trace = run_traced(ROWS_WITHOUT_A_KEY, "flash2")
    flops = step_flops(trace, ALGORITHMS["flash2"])
    moved = trace.bytes_read + trace.bytes_written
    assert min(trace.bytes_read.max(), trace.bytes_written.max()) > 0
    for flops_per_ns in (0.5, 3.0, 1e6):  # a byte takes 1 ns
        gpu = replace(GPUS["H200"], hbm_bandwidth=1e9, fp16_flops=flops_per_ns * 1e9)
        expected = [max(byte, flop / flops_per_ns) for byte, flop in zip(moved, flops, strict=True)]
        np.testing.assert_allclose(modelled_ns(trace, ALGORITHMS["flash2"], gpu), expected, rtol=1e-12)
