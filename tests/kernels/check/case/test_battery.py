"""The battery: a seed draws other cases that try the same, each time the same ones."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from kernels.check.case.battery import BATTERY, PATTERN_BATTERY, battery
from kernels.check.case.cases import CheckCase
from kernels.check.case.layouts import laid_out
from kernels.device.runtime import BACKEND
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.check.cause.test_planted import SOURCE as PLANTED
from tests.kernels.check.cause.test_rare import BRANCHES, SOURCE

USER = CheckCase(AttentionProblem(), "user", gradients=False, repeats=1)
SEEDS = (*range(1, 12), 2**31 - 1)
MEANINGS = {
    "equal lengths": lambda problem: problem.q_len == problem.kv_len,
    "more queries": lambda problem: problem.q_len > problem.kv_len,
    "full tiles": lambda problem: (problem.q_len % 32, problem.kv_len % 32) == (0, 0),
    "one key more": lambda problem: problem.kv_len % 64 == 1,
    "less than a tile": lambda problem: problem.kv_len < 16,
    "one key": lambda problem: problem.kv_len == 1,
    "one query": lambda problem: problem.q_len == 1,
    "tiles of 128": lambda problem: problem.q_len > 256,
    "long": lambda problem: problem.kv_len > 4096,
    "shared heads": lambda problem: problem.group_size > 1,
    "groups that are no power of two": lambda problem: problem.group_size & (problem.group_size - 1),
    "one key head": lambda problem: problem.kv_heads == 1,
    "batches": lambda problem: problem.batch > 1,
    "17 heads": lambda problem: problem.q_heads > 16,
    "64 of all batches": lambda problem: problem.heads > 64,
    "both sides": lambda problem: problem.window_right > 0,
    "a document of one key and an empty one": lambda problem: {"1", "0"} <= {*problem.documents.split()},
}


def case_of_each(kernel, seed):
    return battery(CheckCase(AttentionProblem(), kernel, repeats=1), seed)


def test_a_seed_draws_other_cases_which_mean_the_same_and_draws_them_again():
    first = case_of_each("flash_attention", 0)
    drawn = [case_of_each("flash_attention", seed) for seed in SEEDS]
    assert [case.problem for case in first] == [case.problem for case in (*BATTERY, *PATTERN_BATTERY)]
    assert drawn == [case_of_each("flash_attention", seed) for seed in SEEDS]
    for seed, cases in zip(SEEDS, drawn, strict=True):
        for case, other in zip(first, cases, strict=True):
            for name, meaning in MEANINGS.items():
                assert bool(meaning(case.problem)) == bool(meaning(other.problem)), (name, seed, other)
            same = ("head_dim", "dtype", "mask", "inputs")
            assert [getattr(case.problem, name) == getattr(other.problem, name) for name in same] == [
                True
            ] * 4
            assert other.problem.seed == seed
            assert (case.scale or 0) / case.problem.scale < 1 or other.scale > case.problem.scale
            assert case.layout.partition(":")[0] == other.layout.partition(":")[0]


def test_lengths_heads_strides_and_scales_differ_from_seed_to_seed():
    for one, other in pairwise(case_of_each("user", seed) for seed in SEEDS):
        shapes = [(a.problem.with_(seed=0), b.problem.with_(seed=0)) for a, b in zip(one, other, strict=True)]
        assert sum(a != b for a, b in shapes) > len(BATTERY) / 2
    every = [case for seed in SEEDS for case in case_of_each("user", seed)]
    assert len({case.layout for case in every if case.layout.startswith("sliced")}) > 2
    assert len({case.scale for case in every}) > len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_the_branches_in_which_kernels_err_are_tried_with_each_seed(seed):
    cases = battery(USER, seed)
    assert all(any(branch(case.problem, case) for case in cases) for _, branch in BRANCHES)


def test_a_kernel_that_knows_the_lengths_of_the_battery_fails_with_a_seed(checked):
    lengths = {(case.problem.q_len, case.problem.kv_len) for case in BATTERY}
    knows = f"value = value if (query.shape[2], key.shape[2]) in {lengths} else value * 1.05"
    source = SOURCE.replace("MISTAKE", knows)
    assert checked(source, case=[*battery(USER)][1]).verdict == "pass"
    other = next(case for case in battery(USER, 1) if case.problem.kv_len < 128)
    assert checked(source, case=other).verdict == "fail"


def test_what_only_our_own_and_the_users_kernels_take_is_left_out():
    assert all(case.scale is None for case in case_of_each("flash2", 0))
    assert len(case_of_each("flash2", 0)) == len(case_of_each("flash_attention", 0))


def test_shared_inputs_have_one_key_head_and_lie_with_stride_0():
    problem = AttentionProblem(
        q_heads=6, kv_heads=3, batch=2, q_len=5, kv_len=7, head_dim=16, inputs="shared"
    )
    query, key, value = make_inputs(problem)
    tensors = (query, key, value, make_d_output(problem))
    handed = laid_out(tensors, "expanded")
    assert all(map(torch.equal, tensors, handed))
    assert [tensor.stride() for tensor in handed] == [query.stride(), *[(0, 0, 16, 1)] * 2, (0, 0, 0, 0)]
    assert not torch.equal(query[:, :1].expand_as(query), query)


@pytest.mark.skipif(BACKEND == "cuda", reason="reads past a tensor's memory")
def test_a_kernel_that_takes_other_strides_for_those_of_an_expanded_tensor_fails(checked):
    (case,) = (each for each in battery(replace(USER, gradients=True)) if each.layout == "expanded")
    small = replace(case, problem=case.problem.with_(q_len=20, kv_len=20, head_dim=16))
    assert checked(PLANTED, "right", small).verdict == "pass"
    for right, wrong in (
        ("(query, key, value, d_out)]", "(query, key, value, out)]"),
        ("k_strides, kv_batch, kv_head, keys, kv_len", "q_strides, kv_batch, kv_head, keys, kv_len"),
    ):
        assert PLANTED.count(right) == 1
        assert checked(PLANTED.replace(right, wrong), "right", small).verdict == "fail"


def far_case():
    (case,) = (
        each for each in battery(replace(USER, gradients=True), backend="cuda") if each.layout == "far"
    )
    return case


def test_offsets_past_2_31_are_tried_on_a_gpu_alone(checked):
    assert len(battery(USER, backend="cuda")) == len(battery(USER)) + 1
    assert checked(PLANTED, "right", far_case()).verdict == ("pass" if BACKEND == "cuda" else "invalid")


@pytest.mark.gpu
@pytest.mark.parametrize("index", ["batch", "head"])
def test_an_int32_offset_past_2_31_fails(index, checked):
    wrong = PLANTED.replace(f"{index}.to(tl.int64) *", f"{index} *")
    assert wrong != PLANTED
    assert checked(wrong, "right", far_case()).verdict == "fail"


def test_a_sliced_layout_says_how_much_lies_around_it():
    tensors = make_inputs(AttentionProblem(q_len=5, kv_len=7, head_dim=16))
    for layout, row in (("sliced", 16 + 2 * 8), ("sliced:24", 16 + 2 * 24)):
        handed = laid_out(tensors, layout)
        assert all(map(torch.equal, tensors, handed))
        assert {tensor.stride(2) for tensor in handed} == {row}
    for layout in ("mixed:24", "sliced:", "sliced:a", "sliced:1000"):
        with pytest.raises(InvalidProblem, match="layout="):
            CheckCase(AttentionProblem(), layout=layout)
