"""Bytes of one call in four meanings: each from its own source, and never mixed."""

from dataclasses import replace

import pytest

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.measure.counters import requested
from kernels.measure.four_numbers import (
    KernelTraffic,
    cache_share,
    join_small,
    our_modelled_parts,
    our_traffic,
    standard_traffic,
    tile_sides,
    tiles_of,
)
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from kernels.traffic.operations import Operation
from tests.kernels.documents import counter_run

SMALL = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=32)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_our_kernels_ask_for_what_the_formula_says(direction):
    problem = AttentionProblem(q_len=70, kv_len=100, head_dim=40, mask="causal")
    counted = requested(problem, "ours", direction)
    modelled = our_modelled_parts(problem, direction, counted)
    assert [(operation.name, operation.bytes_moved) for operation in counted] == [
        (part.name, part.bytes) for part in modelled
    ]


def test_the_four_totals_are_of_four_kinds_and_say_what_is_missing():
    run = counter_run()
    totals = our_traffic(run.problem, "forward", run.counted, run)
    assert [total.kind for total in totals] == ["modelled", "requested", "compulsory", "DRAM"]
    assert [total.origin for total in totals] == ["modelled", "counted", "modelled", "recorded"]
    standard = standard_traffic(run.problem, "forward", run.counted, run)
    assert [total.origin for total in standard] == ["modelled", "modelled", "modelled", "recorded"]
    modelled, requested_total, compulsory, dram = totals
    assert requested_total.bytes == 600e6
    assert dram.bytes == 60e6
    assert compulsory.bytes == compulsory_bytes(run.problem)
    per_head = 2 * 4096 * 64 * 2 + 4096 * 4 + 64 * 2 * 4096 * 64 * 2  # with the 64 x 128 tiles that counted
    assert modelled.bytes == 16 * per_head
    assert cache_share(requested_total, dram) == pytest.approx(0.9)


def test_a_missing_total_says_why():
    problem = counter_run().problem
    modelled, requested_total, _, dram = standard_traffic(problem, "forward", (), None)
    assert (requested_total.missing, dram.missing) == ("not modelled", "not recorded")
    assert modelled.bytes == standard_bytes(problem)
    assert cache_share(requested_total, dram) is None
    backward, *_ = standard_traffic(problem, "backward", (), None)
    assert backward.bytes == standard_bytes(problem, "backward")


def test_a_formula_of_other_kernels_than_those_that_ran_is_not_shown():
    run = counter_run(direction="backward", counted=0)
    hopper = replace(run, kernels=(replace(run.kernels[0], name="_attn_bwd_hopper"),))
    modelled, *_ = our_traffic(run.problem, "backward", (), hopper)
    assert modelled.bytes is None
    assert modelled.missing == "no formula for the kernels that ran"
    ours = replace(run, kernels=(replace(run.kernels[0], name="_attn_bwd_dq"),))
    for counters in (ours, None):
        modelled, *_ = our_traffic(run.problem, "backward", (), counters)
        assert modelled.bytes
        assert not modelled.missing


def test_small_parts_are_joined_and_nothing_is_lost():
    parts = join_small([KernelTraffic("big", 1000), KernelTraffic("tiny", 1), KernelTraffic("small", 2)])
    assert [(part.name, part.bytes) for part in parts] == [("big", 1000), ("the rest", 3)]


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ("64x128 tiles", (64, 128)),
        ("16x4096x4096", None),
        ("0x64 tiles", None),
        ("²x64 tiles", None),
        ("99999x64 tiles", None),
        ("", None),
    ],
)
def test_tiles_are_read_from_an_operation_only_if_it_names_some(shape, sides):
    operation = Operation("_attn_bwd_dq", 1, 1, shape)
    assert tile_sides(operation) == sides
    tiles = tiles_of(operation, SMALL)
    assert (tiles.block_m, tiles.block_n) == (sides or (SMALL.block_m, SMALL.block_n))
