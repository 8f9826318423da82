"""Checks: right kernels pass, wrong ones fail where they are wrong, and every number is what it says."""

import itertools
import math

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.check.case.cases import KERNELS, OURS, UPLOADED, CheckCase, kernels_on
from kernels.check.judge import run as check_run
from kernels.check.judge.compare import error_map, key_group_probe, ulp_counts
from kernels.check.judge.run import run_check
from kernels.check.judge.sensitivity import factors, run_sensitivity
from kernels.check.judge.weights import program_starts
from kernels.check.result import ULP_EDGES
from kernels.check.subject.subjects import Subject
from kernels.device.runtime import BACKEND
from kernels.problem import AttentionProblem, InvalidProblem, tiles
from tests.anywhere import ANYWHERE

SMALL = AttentionProblem(q_len=20, kv_len=36, head_dim=16, block_m=16, block_n=32, mask="causal", q_heads=2)


CHECKED = [name for name in kernels_on(BACKEND, 0) if name not in {*ALGORITHMS} - {*ANYWHERE}]


@pytest.mark.parametrize("kernel", [name for name in CHECKED if name != "flex"])
def test_right_kernels_pass(kernel):
    result = run_check(CheckCase(SMALL, kernel, repeats=2))
    if kernel not in OURS and result.verdict == "invalid":
        pytest.skip(result.reason)  # not every backend of torch takes every mask
    assert result.verdict == "pass", result.reason
    assert result.repeats.runs == 2
    names = [tensor.name for tensor in result.tensors]
    assert names == [
        "O",
        *(["lse"] if KERNELS[kernel].lse else []),
        *(["dQ", "dK", "dV"] if KERNELS[kernel].gradients else []),
    ]
    assert all(tensor.mean_error <= tensor.max_error <= tensor.tolerance for tensor in result.tensors)
    in_triton = kernel not in ALGORITHMS or ALGORITHMS[kernel].runs_in == "triton"
    assert result.interpreted == (BACKEND == "interpreter" and kernel in OURS and in_triton)


def broken_subject(monkeypatch, spoil, gradients=None):
    """flash2, with `spoil` applied to its (O, lse), and `gradients` to dQ, dK, dV."""
    original = check_run.make_subject

    def make(case, launches=()):
        subject = original(case)
        return Subject(
            lambda *tensors: spoil(*subject.forward(*tensors)),
            gradients and (lambda *tensors: gradients(*subject.gradients(*tensors))),
            subject.band,
        )

    monkeypatch.setattr(check_run, "make_subject", make)


def check_broken(monkeypatch, spoil, gradients=None, problem=SMALL, repeats=1):
    broken_subject(monkeypatch, spoil, gradients)
    return run_check(CheckCase(problem, "flash2", gradients=gradients is not None, repeats=repeats))


def test_one_wrong_element_fails_and_is_found(monkeypatch):
    def spoil(out, lse):
        out = out.clone()
        out[0, 1, 13, 5] += 0.25
        return out, lse

    result = check_broken(monkeypatch, spoil)
    assert result.verdict == "fail"
    assert result.tensor("O").worst == (0, 1, 13, 5)
    assert result.tensor("lse").passes
    found = result.map("O")
    assert found.heads[0] == 1
    assert np.argwhere(found.values[0] > 1).tolist() == [[13, 5]]
    assert "O is off by 2.5e-01" in result.reason


def test_values_that_are_not_finite_fail_and_are_mapped(monkeypatch):
    def spoil(out, lse):
        out = out.clone()
        out[0, 1, 7, :4], out[0, 1, 7, 4:] = float("nan"), float("inf")
        return out, lse

    result = check_broken(monkeypatch, spoil)
    assert result.verdict == "fail"
    assert result.tensor("O").wrong_nonfinite == SMALL.head_dim
    assert "are NaN or infinity where float64 differs" in result.reason
    assert set(np.argwhere(result.map("O").codes[0] == 3)[:, 0]) == {7}


def test_a_wrong_lse_fails_though_the_output_is_right(monkeypatch):
    result = check_broken(monkeypatch, lambda out, lse: (out, lse * 1.001))
    assert result.verdict == "fail"
    assert result.tensor("O").passes
    assert not result.tensor("lse").passes


def test_a_wrong_gradient_fails_alone(monkeypatch):
    result = check_broken(monkeypatch, lambda out, lse: (out, lse), lambda dq, dk, dv: (dq, dk * 1.1, dv))
    assert [tensor.name for tensor in result.tensors if not tensor.passes] == ["dK"]


def test_runs_that_differ_are_counted_but_are_no_verdict(monkeypatch):
    runs = itertools.count()

    def spoil(out, lse):
        if next(runs) == 2:
            out = out.clone()
            out[0, 0, 3, :4] += 1e-3
        return out, lse

    result = check_broken(monkeypatch, spoil, repeats=4)
    assert result.repeats.differing == {"O": 4, "lse": 0}
    assert not result.repeats.equal
    assert result.verdict == "pass"


def test_memory_that_nobody_wrote_is_seen(monkeypatch):
    def spoil(out, lse):
        holes = torch.empty_like(out)
        holes[:, :, 1:] = out[:, :, 1:]
        return holes, lse

    assert check_broken(monkeypatch, spoil).tensor("O").wrong_nonfinite == SMALL.q_heads * SMALL.head_dim


def test_rows_without_a_key_must_give_zero(monkeypatch):
    problem = SMALL.with_(q_len=40)
    result = run_check(CheckCase(problem, "flash2", repeats=1))
    assert (result.keyless.count, result.keyless.right, result.verdict) == (4 * SMALL.q_heads, True, "pass")

    def spoil(out, lse):
        lse = lse.clone()
        lse[:, :, 3] = 0.0
        return out, lse

    result = check_broken(monkeypatch, spoil, problem=problem)
    assert (result.keyless.wrong_output, result.keyless.wrong_lse, result.verdict) == (
        0,
        SMALL.q_heads,
        "fail",
    )


def test_ulps_are_counted_in_the_spacing_of_the_type():
    exact = torch.tensor([1.0, 1.0, 1.0, 4.0, 0.0, 6e-8, float("nan")], dtype=torch.float64)
    got = torch.tensor([1.0, 1 + 2**-10, 1 + 3 * 2**-10, 4 + 2**-8, 2**-24, 2**-24, 1.0], dtype=torch.float16)
    counts = dict(zip((*ULP_EDGES, "more"), ulp_counts(got, exact, torch.float16), strict=True))
    assert counts == {0.5: 2, 1: 3, 2: 0, 4: 1, 8: 0, 16: 0, 64: 0, 256: 0, 1024: 0, "more": 0}


def test_the_probe_of_the_keys_sums_to_one_in_every_row():
    problem = AttentionProblem(q_len=24, kv_len=300, head_dim=16, block_n=16)
    query, key, value = (
        torch.randn(shape) for shape in (problem.q_shape, problem.kv_shape, problem.kv_shape)
    )
    probe, keys = key_group_probe(value, problem.block_n)
    assert keys == 2 * problem.block_n  # 19 tiles, 16 columns
    weights = torch.softmax(query @ key.transpose(-1, -2), dim=-1)
    out = weights @ probe
    torch.testing.assert_close(out.sum(dim=-1), torch.ones(1, 1, 24))
    torch.testing.assert_close(out[0, 0, :, 3], weights[0, 0, :, 3 * keys : 4 * keys].sum(dim=-1))


def test_a_map_keeps_the_largest_error_of_each_cell_and_the_worst_heads():
    error = torch.zeros(2, 3, 1000, 300, dtype=torch.float64)
    error[1, 2, 999, 299] = 8.0
    error[0, 1, 7, 0] = 4.0
    found = error_map("O", error, 2.0, None)
    assert found.heads.tolist()[:2] == [5, 1]
    assert found.values[0, -1, -1] == 4.0
    assert found.values[1, 7 // found.row_step, 0] == 2.0
    assert found.values.shape[1:] == (-(-1000 // found.row_step), -(-300 // found.column_step))
    assert (found.values > 0).sum() == 2


@pytest.mark.parametrize(
    "problem",
    [
        SMALL,
        SMALL.with_(mask="full", batch=2),
        SMALL.with_(q_len=90, kv_len=60),
        SMALL.with_(mask="window", window_left=20, window_right=3, kv_len=40),
    ],
    ids=lambda problem: f"{problem.q_len}x{problem.kv_len}-{problem.mask}",
)
def test_the_step_of_a_tile_is_that_of_the_trace(problem):
    trace = run_traced(problem, "flash2")
    heads = torch.arange(problem.batch * problem.q_heads)
    starts = program_starts(problem, heads)
    for step, (head, q_tile, kv_tile) in enumerate(
        zip(trace.batch_head, trace.q_tile, trace.kv_tile, strict=True)
    ):
        first = tiles.visited_tiles(problem, int(q_tile)).first
        assert step == starts[head, q_tile] + (kv_tile - first if kv_tile >= 0 else 0)
    large = problem.with_(q_len=1 << 18, kv_len=1 << 18)  # the player samples it
    assert program_starts(large, heads) is None


def test_tiles_and_scale_are_varied_up_to_the_overflow():
    problem = AttentionProblem(q_len=20, kv_len=24, head_dim=16)
    found = run_sensitivity(CheckCase(problem, "flash2"))
    assert "16 x 16" in [point.label for point in found.blocks]
    assert all(point.passes for point in found.blocks)
    assert all(point.passes for point in found.scales)
    *held, overflow = found.scales
    assert math.isinf(overflow.largest_score)
    assert all(math.isfinite(point.largest_score) for point in held)
    assert any(
        point.naive_wrong_nonfinite for point in held
    )  # float16 scores overflow in naive attention before the query does


def test_factors_end_one_beyond_what_the_type_holds():
    powers = factors(4.0, torch.float16)
    assert 4.0 * 2.0 ** powers[-2] <= torch.finfo(torch.float16).max < 4.0 * 2.0 ** powers[-1]
    assert factors(0.0, torch.float16) == [0]


def test_a_kernel_with_tiles_of_its_own_says_so():
    found = run_sensitivity(CheckCase(AttentionProblem(q_len=16, kv_len=16, head_dim=16), "flash_attention"))
    assert found.blocks == ()
    assert found.notes == ("This kernel chooses its tiles itself.",)
    with pytest.raises(InvalidProblem, match="a result from a file cannot be run again"):
        run_sensitivity(CheckCase(SMALL, UPLOADED))
