"""Bytes of one call in four meanings: each from its own source, and never mixed."""

import pytest

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.measure.four_numbers import (
    KINDS,
    cache_share,
    joined_small,
    our_modelled_parts,
    our_numbers,
    standard_numbers,
)
from kernels.measure.ncu import requested
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from kernels.traffic.operations import Operation
from tests.kernels.documents import counter_run

SMALL = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=32)


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_our_kernels_ask_for_what_the_formula_says(mask, direction):
    problem = AttentionProblem(batch=2, q_heads=2, kv_heads=2, q_len=100, kv_len=164, head_dim=40, mask=mask)
    counted = requested(problem, "ours", direction)
    modelled = our_modelled_parts(problem, direction, counted)
    assert [(operation.name, operation.bytes_moved) for operation in counted] == [
        (part.name, part.bytes) for part in modelled
    ]


def test_the_four_numbers_are_of_four_kinds_and_say_what_is_missing():
    run = counter_run()
    numbers = our_numbers(run.problem, "forward", run.counted, run)
    assert tuple(number.kind for number in numbers) == KINDS
    modelled, asked, least, dram = numbers
    assert asked.bytes == 600e6
    assert dram.bytes == 60e6
    assert least.bytes == compulsory_bytes(run.problem)
    assert modelled.bytes == 16 * (
        2 * 4096 * 64 * 2 + 4096 * 4 + 64 * 2 * 4096 * 64 * 2
    )  # with the 64 x 128 tiles that were counted
    assert cache_share(asked, dram) == pytest.approx(0.9)
    without = standard_numbers(run.problem, "forward", (), None)
    assert (without[1].missing, without[3].missing) == ("not counted", "not recorded")
    assert without[0].bytes == standard_bytes(run.problem)
    assert cache_share(without[1], without[3]) is None
    assert standard_numbers(run.problem, "backward", (), None)[0].bytes == backward_standard_bytes(
        run.problem
    )


def test_small_parts_are_joined_and_nothing_is_lost():
    parts = joined_small(
        count
        for count in our_numbers(
            SMALL, "backward", [Operation("big", 1000, 0, ""), Operation("tiny", 1, 0, "")], None
        )[1].parts
    )
    assert [(part.name, part.bytes) for part in parts] == [("big", 1000), ("the rest", 1)]
