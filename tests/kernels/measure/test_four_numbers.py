"""Bytes of one call in four meanings: each from its own source, and never mixed."""

from dataclasses import replace

import pytest

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.measure.counters import requested
from kernels.measure.four_numbers import cache_share, four_totals, join_small, our_modelled_parts, tile_sides
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from kernels.traffic.operations import Operation
from tests.kernels.documents import counter_run


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_our_kernels_ask_for_what_the_formula_says(direction):
    problem = AttentionProblem(q_len=70, kv_len=100, head_dim=40, mask="causal")
    counted = requested(problem, "ours", direction)
    modelled = our_modelled_parts(problem, direction, counted)
    assert [(operation.name, operation.bytes_moved) for operation in counted] == list(modelled)


def test_the_four_totals_are_of_four_kinds():
    run = counter_run()
    totals = four_totals(run)
    assert [total.kind for total in totals] == ["modelled", "requested", "compulsory", "DRAM"]
    assert [total.origin for total in totals] == ["modelled", "counted", "modelled", "recorded"]
    naive = four_totals(replace(run, peer="naive"))
    assert [total.origin for total in naive] == ["modelled", "modelled", "modelled", "recorded"]
    modelled, requested_total, compulsory, dram = totals
    assert (requested_total.bytes, dram.bytes) == (600e6, 60e6)
    assert compulsory.bytes == compulsory_bytes(run.problem)
    per_head = 2 * 4096 * 64 * 2 + 4096 * 4 + 64 * 2 * 4096 * 64 * 2  # with the 64 x 128 tiles that counted
    assert modelled.bytes == 16 * per_head
    assert cache_share(requested_total, dram) == pytest.approx(0.9)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_missing_total_says_why(direction):
    run = counter_run("naive", direction=direction, counted=0)
    modelled, requested_total, _, dram = four_totals(run)
    assert requested_total.missing == "not modelled"
    assert modelled.bytes == standard_bytes(run.problem, direction)
    assert cache_share(requested_total, dram) is None


@pytest.mark.parametrize(("ran", "known"), [("_attn_bwd_hopper", False), ("_attn_bwd_dq", True)])
def test_a_formula_of_other_kernels_than_those_that_ran_is_not_shown(ran, known):
    run = counter_run(direction="backward", counted=0)
    run = replace(run, kernels=(replace(run.kernels[0], name=ran),))
    modelled, *_ = four_totals(run)
    assert bool(modelled.bytes) == known


def test_small_parts_are_joined_and_nothing_is_lost():
    assert join_small([("big", 1000), ("tiny", 1), ("small", 2)]) == (("big", 1000), ("the rest", 3))


@pytest.mark.parametrize(
    ("shape", "sides"),
    [("128x32 tiles", (128, 32)), ("192x128 tiles", (192, 128)), ("16x4096x4096", None)]
    + [(f"{rows}x64 tiles", None) for rows in ("0", "²", "99999")],
)
def test_tiles_are_read_from_an_operation_only_if_it_names_some(shape, sides):
    operation = Operation("_attn_bwd_dq", 1, 1, shape)
    assert tile_sides(operation) == sides
    problem = AttentionProblem(q_len=256, kv_len=256)
    parts = dict(our_modelled_parts(problem, "backward", (operation,)))
    own = dict(our_modelled_parts(problem, "backward", ()))
    assert (parts != own) == (sides == (128, 32))  # a problem takes no tiles of 192 rows
