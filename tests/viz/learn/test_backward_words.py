"""What Learn says of the loop orders of the backward pass follows from the numbers, in every direction."""

import re

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.lessons import io as lesson
from kernels.lessons.backward_run import key_outer_run
from kernels.lessons.backward_traffic import backward_work
from kernels.lessons.io import BlockSizes, key_outer_backward_bytes
from kernels.problem import AttentionProblem
from viz.learn.backward_orders import SRAM_BYTES, _bars, row_wise_cost, row_wise_words
from viz.learn.backward_words import counted_elements, loop_order_words
from viz.learn.comparing import compared

BLOCKS = (16, 32, 64, 128)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (3, 3, "as much as"),
        (2, 3, "1.5× less than"),
        (3, 2, "1.5× more than"),
        (100, 101, "slightly less than"),
        (101, 100, "slightly more than"),
        (1, 30, "30× less than"),
    ],
)
def test_two_numbers_compared(first, second, words):
    assert compared(first, second) == words


@pytest.mark.parametrize("length", [128, 512])
@pytest.mark.parametrize("block_m", BLOCKS)
@pytest.mark.parametrize("block_n", BLOCKS)
def test_the_sentence_agrees_with_the_numbers(length, block_m, block_n):
    problem = AttentionProblem(q_len=length, kv_len=length, head_dim=16, block_m=block_m, block_n=block_n)
    words = loop_order_words(problem)
    key, query = (int(number.replace(",", "")) for number in re.findall(r"t_\w Nd\$ = ([\d,]+)", words))
    assert key == key_outer_run(problem, False).inner_loop_elements
    assert f"moves {compared(key, query)} that of the query-outer order" in words
    tile = BlockSizes(block_m, block_n)
    key_bytes = key_outer_backward_bytes(length, 16, tile, 2, gamma_each_step=False)
    query_bytes = ALGORITHMS["backward_q_outer"].requested_bytes(problem)
    assert f"the whole pass moves {compared(key_bytes, query_bytes)} the other" in words


@pytest.mark.parametrize(("block_m", "block_n"), [(16, 32), (32, 16)])
def test_the_key_outer_kernel_asks_for_the_bytes_of_the_run_in_numpy(block_m, block_n):
    problem = AttentionProblem(q_len=64, kv_len=48, head_dim=16, block_m=block_m, block_n=block_n)
    asked = ALGORITHMS["backward_kv_outer"].requested_bytes(problem)
    assert asked == key_outer_run(problem, False).bytes_moved


def test_both_directions_and_a_tie_occur():
    def words(block_m, block_n, length=512):
        return loop_order_words(
            AttentionProblem(q_len=length, kv_len=length, head_dim=16, block_m=block_m, block_n=block_n)
        )

    assert "moves 1.5× less than that" in words(64, 64)
    assert "moves 5.3× more than that" in words(128, 16)
    assert "moves as much as that" in words(128, 64, length=192)  # 2 query tiles and 3 key tiles


def test_key_outer_orders_that_no_kernel_has_run_are_counted_by_a_run_in_numpy():
    problem = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=32)
    assert counted_elements(problem, {}) == {
        "algorithm 7": 5 * 2 * 64 * 16,
        "algorithm 8": 4 * 2 * 64 * 16,
    }
    assert counted_elements(problem.with_(q_len=65536, kv_len=65536), {}) == {}


def test_work_of_the_backward_pass_adds_up_to_the_printed_sum():
    problem = AttentionProblem(q_len=96, kv_len=96, head_dim=32)
    work = backward_work(problem)
    standard = sum(line.flops for line in work if not line.recomputed)
    assert standard == 8 * 96**2 * 32 + 2 * 96**2 + 2 * 96 * 32
    assert sum(line.flops for line in work) - standard == 2 * 96**2 * 32


@pytest.mark.parametrize(
    ("length", "head_dim", "tile", "reason"),
    [
        (128, 32, 32, "P and dP of all 128 rows fit into 64 KiB"),
        (64, 32, 32, "Q, K, V, O, dO and the three gradients fit into 64 KiB together"),
        (256, 64, 16, "it keeps 64 whole rows of P and dP in 64 KiB, and the tiles have only 16 queries"),
        (256, 32, 32, ""),
        (4096, 64, 64, ""),
    ],
)
def test_row_wise_attention_is_explained_if_and_only_if_it_moves_least(length, head_dim, tile, reason):
    problem = AttentionProblem(
        q_len=length, kv_len=length, head_dim=head_dim, block_m=tile, block_n=tile, dtype="float16"
    )
    bars = _bars(problem, {})
    row_wise = next(bar.modelled for bar in bars if bar.label.startswith("row-wise"))
    least = row_wise <= min(bar.modelled for bar in bars)
    words = row_wise_words(problem)
    assert bool(words) == least == bool(reason)
    assert reason in words


def test_the_length_at_which_rows_no_longer_fit_is_the_next_one():
    problem = AttentionProblem(q_len=128, kv_len=128, head_dim=32, block_m=32, block_n=32)
    memory = SRAM_BYTES // 2
    rows = lesson.row_wise_backward_rows(256, 32, memory)
    assert lesson.row_wise_backward_rows(128, 32, memory) == 128
    assert rows < 256
    assert f"at N = 256 only {rows} of 256 rows fit" in row_wise_words(problem)


def test_what_row_wise_attention_moves_again_is_said_where_it_does_not_move_least():
    problem = AttentionProblem(q_len=512, kv_len=512, head_dim=32, block_m=64, block_n=64)
    assert row_wise_words(problem) == ""
    assert "keeps 32 whole rows of P and dP in 64 KiB" in row_wise_cost(problem)
    assert "reads and writes dK and dV, 16 times (modelled)" in row_wise_cost(problem)
    assert row_wise_cost(problem.with_(q_len=65536, kv_len=65536)) == ""
