"""Formulas of the Traffic chapter: against requested bytes, against eq 43 to 79, at their edges."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from viz.learn.io import maths as lesson

SMALL = AttentionProblem(q_len=96, kv_len=96, head_dim=16, block_m=32, block_n=16)
SIZES = lesson.BlockSizes(32, 16)


def test_curves_pass_through_what_the_kernels_count_and_other_formulas_give():
    for name, modelled in (
        ("flash1", lesson.flash1_bytes(96, 16, SIZES, 2)),
        ("flash2", lesson.flash2_bytes(96, 16, SIZES, 2)),
        ("row_wise", lesson.row_wise_bytes(96, 16, 32, 2)),
        ("standard", lesson.standard_bytes(96, 16, SIZES, 2)),
    ):
        assert modelled == ALGORITHMS[name].requested_bytes(SMALL)
        assert name == "row_wise" or modelled == run_traced(SMALL, name).total_bytes
    assert lesson.curve_bytes("compulsory", 96, 16, 1 << 15, 2) == compulsory_bytes(SMALL, with_lse=False)


@pytest.mark.parametrize(("memory", "d"), [(1 << 12, 16), (20_000, 100), (1 << 15, 64), (83_456, 128)])
def test_blocks_of_eq_44_and_79_fit_and_forward_blocks_do_not_fit_backward(memory, d):
    forward, backward = lesson.query_outer_blocks(memory, d, 4), lesson.query_outer_blocks(memory, d, 8)
    assert sum(lesson.forward_blocks(forward, d).values()) <= memory
    assert sum(lesson.backward_blocks(backward, d).values()) <= memory
    assert sum(lesson.backward_blocks(forward, d).values()) > memory
    for sizes, share in ((forward, 4), (backward, 8)):
        assert max(sizes.query * d, sizes.key * d, sizes.query * sizes.key) <= memory // share
        assert (sizes.query + 1) * d > memory // share  # the query tile cannot be one row taller


@pytest.mark.parametrize("kib", [32, 64])
@pytest.mark.parametrize("name", ["flash1", "flash2", "row_wise", "standard"])
def test_a_curve_has_the_bytes_of_the_entry_with_the_same_tiles(name, kib):
    problem, elements = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64), kib << 9
    block_m, block_n = lesson.largest_blocks(name, elements, 64)
    if name == "row_wise":
        block_m = lesson.row_wise_block(problem, kib << 10)
    asked = ALGORITHMS[name].requested_bytes(problem.with_(block_m=block_m, block_n=block_n))
    assert lesson.curve_bytes(name, 1024, 64, elements, 2) == asked


@pytest.mark.parametrize(
    ("name", "memory", "order"),
    [
        ("standard", 1 << 20, (4, 1, 1)),  # fewer elements: K and V are read too often
        ("row_wise", 1 << 20, (8, 2, 0.5)),  # fewer elements hold too few of its rows
        ("flash1", 1 << 15, (4, 4, 0.5)),
        ("flash2", 1 << 15, (4, 4, 0.5)),
    ],
)
def test_bytes_grow_as_the_orders_say_for_long_sequences(name, memory, order):
    here, *doubled = (
        lesson.curve_bytes(name, length, d, room, 2)
        for length, d, room in (
            (1 << 14, 64, memory),
            (1 << 15, 64, memory),
            (1 << 14, 128, memory),
            (1 << 14, 64, 2 * memory),
        )
    )
    assert [moved / here for moved in doubled] == pytest.approx(order, rel=0.06)


def test_a_curve_ends_where_no_row_fits():
    assert lesson.curve_bytes("row_wise", 4096, 64, 1 << 15, 2) is None
    assert lesson.curve_bytes("flash2", 1024, 64, 4 * 64 - 1, 2) is None


def test_the_lower_bound_meets_inputs_and_outputs_at_m_equal_td():
    length, d = 1024, 64
    assert lesson.curve_bytes("lower_bound", length, d, length * d, 2) == length * d * 2
    bound, flash2 = (lesson.curve_bytes(name, length, d, 1 << 13, 2) for name in ("lower_bound", "flash2"))
    assert bound < flash2


def test_the_row_wise_tile_is_the_tallest_that_fits_by_what_its_entry_keeps():
    problem = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
    kept = {block: ALGORITHMS["row_wise"].chip_bytes(problem.with_(block_m=block)) for block in (8, 16)}
    assert kept[8] <= 64 << 10 < kept[16]
    assert lesson.row_wise_block(problem, 64 << 10) == 8
    assert lesson.row_wise_block(problem, 16 << 10) is None


@pytest.mark.parametrize(("length", "block_m", "block_n"), [(32, 16, 32), (50, 32, 16)])
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
