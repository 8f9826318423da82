"""Formulas of the Traffic chapter: against requested bytes, against eq 43 to 79, at their edges."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.lessons import io as lesson
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes

SMALL = AttentionProblem(q_len=96, kv_len=96, head_dim=16, block_m=32, block_n=16)
MEMORIES = [1 << 12, 1 << 13, 20_000, 1 << 15, 83_456, 1 << 17]


@pytest.mark.parametrize(
    ("name", "formula"), [("flash1", lesson.flash1_bytes), ("flash2", lesson.flash2_bytes)]
)
def test_curves_pass_through_what_the_kernels_count(name, formula):
    modelled = formula(
        SMALL.q_len, SMALL.head_dim, lesson.BlockSizes(SMALL.block_m, SMALL.block_n), SMALL.itemsize
    )
    assert modelled == ALGORITHMS[name].requested_bytes(SMALL) == run_traced(SMALL, name).total_bytes


def test_other_curves_agree_with_the_formulas_of_a_problem():
    assert lesson.standard_bytes(96, 16, 2) == standard_bytes(SMALL)
    assert lesson.row_wise_bytes(96, 16, 32, 2) == ALGORITHMS["row_wise"].requested_bytes(SMALL)
    for direction in ("forward", "backward"):
        without_lse = compulsory_bytes(SMALL, direction) - 4 * 96
        assert lesson.compulsory_bytes(96, 16, 2, direction) == without_lse


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("d", [16, 64, 100, 128])
def test_blocks_of_eq_44_and_79_fit_and_forward_blocks_do_not_fit_backward(memory, d):
    forward, backward = lesson.query_outer_blocks(memory, d, 4), lesson.query_outer_blocks(memory, d, 8)
    assert lesson.elements(lesson.forward_blocks(forward, d)) <= memory
    assert lesson.elements(lesson.backward_blocks(backward, d)) <= memory
    assert lesson.elements(lesson.backward_blocks(forward, d)) > memory
    for sizes, share in ((forward, 4), (backward, 8)):
        assert max(sizes.query * d, sizes.key * d, sizes.query * sizes.key) <= memory // share
        assert (sizes.query + 1) * d > memory // share  # the query tile cannot be one row taller


def test_block_lists_name_four_and_eight_blocks():
    sizes = lesson.BlockSizes(128, 64)
    assert [block.tensor for block in lesson.forward_blocks(sizes, 64)] == ["Q", "O", "K/V", "S"]
    assert len(lesson.backward_blocks(sizes, 64)) == 8
    assert lesson.elements(lesson.forward_blocks(sizes, 64)) == 2 * 128 * 64 + 64 * 64 + 128 * 64


def test_the_key_outer_order_gives_the_large_tile_to_the_keys():
    assert lesson.key_outer_blocks(1 << 15, 64) == lesson.BlockSizes(64, 128)
    assert lesson.query_outer_blocks(1 << 15, 64, 4) == lesson.BlockSizes(128, 64)


def test_row_wise_is_linear_while_all_fits_then_cubic_then_impossible():
    length, d = 512, 64
    all_fits = 3 * length * d + length + d
    assert lesson.row_wise_rows(length, d, all_fits) == length
    assert lesson.row_wise_bytes(length, d, length, 2) == 4 * length * d * 2
    rows = lesson.row_wise_rows(length, d, all_fits - 1)
    blocks = (lesson.elements(lesson.row_wise_blocks(each, length, d)) for each in (rows, rows + 1))
    assert [needed <= all_fits - 1 for needed in blocks] == [True, False]
    assert lesson.row_wise_rows(length, d, length - 1) == 0
    assert lesson.curve_bytes("row_wise", length, d, length - 1, 2) is None
    assert lesson.curve_bytes("flash2", length, d, 4 * d - 1, 2) is None


@pytest.mark.parametrize(
    ("name", "memory", "order"),
    [
        ("standard", 1 << 15, (4, 1, 1)),
        ("row_wise", 1 << 20, (8, 2, 0.5)),  # fewer elements hold too few of its rows
        ("flash1", 1 << 15, (4, 4, 0.5)),
        ("flash2", 1 << 15, (4, 4, 0.5)),
    ],
)
def test_bytes_grow_as_the_orders_say_for_long_sequences(name, memory, order):
    factors = lesson.growth(name, 1 << 14, 64, memory, 2)
    assert tuple(factors.values()) == pytest.approx(order, rel=0.06)


def test_growth_says_where_a_point_does_not_fit():
    assert lesson.growth("row_wise", 1024, 64, 1500, 2)["N"] is None
    assert lesson.growth("row_wise", 2048, 64, 1500, 2) == {"N": None, "d": None, "SRAM": None}


def test_the_lower_bound_meets_inputs_and_outputs_at_m_equal_td():
    length, d = 1024, 64
    assert lesson.lower_bound_bytes(length, d, length * d, 2) == length * d * 2
    assert lesson.lower_bound_bytes(length, d, 1 << 13, 2) < lesson.curve_bytes(
        "flash2", length, d, 1 << 13, 2
    )


def test_one_rule_says_what_row_wise_attention_and_flash_attention_keep_on_the_chip():
    """Every tile that a step works with: rows of S alone would let 16 rows of 1,024 keys into 64 KiB."""
    problem = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
    assert lesson.row_wise_block(problem, 64 << 10) == 8
    for block in (8, 16):
        kept = ALGORITHMS["row_wise"].chip_bytes(problem.with_(block_m=block))
        q, key_tile, scores, m = block * 64 * 2, 64 * 64 * 2, block * 1024 * 4, block * 4
        o = block * 64 * 4
        assert kept == key_tile + scores + max(q + m, o)
        assert (kept <= 64 << 10) is (block == 8)
    q_tile = key_tile = 64 * 64 * 2
    for name in ("flash1", "flash2"):
        kept = ALGORITHMS[name].chip_bytes(problem)
        assert kept == q_tile + 2 * key_tile + 2 * 64 * 64 * 4 + 2 * 64 * 4
    assert lesson.row_wise_block(problem, 16 << 10) is None


@pytest.mark.parametrize("kib", [32, 64, 128, 227])
@pytest.mark.parametrize("length", [128, 256, 1024, 2048, 4096])
def test_which_of_row_wise_and_flash1_moves_less_and_where_it_turns(length, kib):
    """By the requested bytes of both, with the tallest tile that the chip holds."""

    def moved(length):
        problem = AttentionProblem(q_len=length, kv_len=length, head_dim=64)
        tiles = [problem.with_(block_m=block) for block in (4, 8, 16, 32, 64, 128)]
        fitting = [each for each in tiles if ALGORITHMS["row_wise"].chip_bytes(each) <= kib << 10]
        if not fitting:
            return None
        row_wise = ALGORITHMS["row_wise"].requested_bytes(fitting[-1])
        return row_wise < ALGORITHMS["flash1"].requested_bytes(problem)

    problem = AttentionProblem(q_len=length, kv_len=length, head_dim=64)
    here = lesson.row_wise_moves_less(problem, kib << 10)
    assert here is moved(length)
    turning, there = lesson.turning_length(problem, kib << 10)
    assert there is moved(turning) is not here
    nearer = 2 * length if here else length // 2
    while nearer != turning:
        assert moved(nearer) is here
        nearer = 2 * nearer if here else nearer // 2


def test_a_shape_may_have_no_turning_length():
    """Neither fewer keys nor more would let row-wise attention win on so small a chip."""
    assert lesson.turning_length(AttentionProblem(q_len=256, kv_len=256, head_dim=64), 16 << 10) is None
    assert lesson.turning_length(AttentionProblem(q_len=128, kv_len=128, head_dim=128), 16 << 10) is None


def test_computing_gamma_once_moves_less_than_at_each_step():
    sizes = lesson.BlockSizes(64, 64)
    each, once = (
        lesson.key_outer_backward_bytes(1024, 64, sizes, 2, each_step) for each_step in (True, False)
    )
    assert once < each
    assert each - once == 1024 * (16 * (64 * 2 - 4) - (2 * 64 * 2 + 4))


def test_row_wise_backward_moves_eight_matrices_if_all_fits():
    assert lesson.row_wise_backward_rows(128, 16, 8 * 128 * 16 + 256) == 128
    assert lesson.row_wise_backward_bytes(128, 16, 128, 2) == 8 * 128 * 16 * 2
    assert lesson.row_wise_backward_rows(1024, 64, 1 << 15) == 16
    assert lesson.row_wise_backward_bytes(1024, 64, 16, 2) > 4 * lesson.row_wise_backward_bytes(
        1024, 64, 128, 2
    )


@pytest.mark.parametrize(
    ("length", "block_m", "block_n"), [(64, 16, 32), (32, 32, 32), (32, 16, 32), (50, 16, 16)]
)
def test_a_step_of_the_inner_loop_asks_for_its_own_tiles_and_not_for_what_a_program_loads_once(
    length, block_m, block_n
):
    problem = AttentionProblem(q_len=length, kv_len=length, head_dim=16, block_m=block_m, block_n=block_n)
    second = lesson.inner_step_bytes(run_traced(problem, "flash2"), ("K", "V"))
    assert second == 2 * block_n * 16 * 2
    first = lesson.inner_step_bytes(run_traced(problem, "flash1"), ("Q", "O", "m", "l"))
    rows = block_m * (16 * 2 + 2 * 16 * 4 + 4 * 4)
    last_only = block_m * (16 * 2 + 16 * 4 + 16 * 2 + 4 * 4)  # O leaves in the type of Q
    assert first == (last_only if block_n >= length else rows)


@pytest.mark.parametrize("d", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("memory_kib", [16, 32, 64, 96, 128, 163, 192, 227, 256])
def test_the_forward_tiles_never_fit_the_backward_pass_and_its_own_tiles_do(d, memory_kib):
    memory = memory_kib * 1024 // 2
    forward, backward = (lesson.query_outer_blocks(memory, d, share) for share in (4, 8))
    assert lesson.elements(lesson.backward_blocks(forward, d)) > memory
    assert lesson.elements(lesson.backward_blocks(backward, d)) <= memory
