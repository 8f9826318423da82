"""Checks: right kernels pass, wrong ones fail where they are wrong, and every number is what it says."""

import itertools
import math

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS
from kernels.check.case.cases import KERNELS, OURS, CheckCase, kernels_on
from kernels.check.judge import run as check_run
from kernels.check.judge.run import error_map, group_probe, run_check
from kernels.check.subject.subjects import Subject
from kernels.device.runtime import BACKEND
from kernels.problem import AttentionProblem
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
    lse = kernel in OURS and kernel not in ("standard", "row_wise")
    gradients = KERNELS[kernel].gradients
    expected = ["O", *(["lse"] if lse else []), *(["dQ", "dK", "dV"] if gradients else [])]
    assert [tensor.name for tensor in result.tensors] == expected
    assert all(tensor.mean_error <= tensor.max_error <= tensor.tolerance for tensor in result.tensors)
    in_triton = kernel not in ALGORITHMS or ALGORITHMS[kernel].runs_in == "triton"
    assert result.interpreted == (BACKEND == "interpreter" and kernel in OURS and in_triton)


@pytest.fixture
def check_broken(monkeypatch):
    """flash2, with `spoil` applied to its (O, lse), and `gradients` to dQ, dK, dV."""

    def check(spoil, gradients=None, problem=SMALL, repeats=1):
        original = check_run.make_subject

        def make(case, launches=()):
            subject = original(case)
            return Subject(
                lambda *tensors: spoil(*(tensor.clone() for tensor in subject.forward(*tensors))),
                subject.band,
                gradients and (lambda *tensors: gradients(*subject.gradients(*tensors))),
            )

        with monkeypatch.context() as patch:
            patch.setattr(check_run, "make_subject", make)
            return run_check(CheckCase(problem, "flash2", gradients is not None, repeats))

    return check


def setting(where, value):
    """Spoils O at a place."""

    def spoil(out, lse):
        out[where] = value(out[where])
        return out, lse

    return spoil


def test_one_wrong_element_fails_and_is_found(check_broken):
    result = check_broken(setting((0, 1, 13, 5), lambda right: right + 0.25))
    assert result.verdict == "fail"
    assert result.tensor("O").worst == (0, 1, 13, 5)
    assert result.tensor("lse").passes
    found = result.map("O")
    assert found.head == 1
    assert np.argwhere(found.values > 1).tolist() == [[13, 5]]
    assert "2.5e-01" in result.reason


def test_values_that_are_not_finite_fail_and_are_mapped(check_broken):
    wrong = torch.tensor([math.nan] * 4 + [math.inf] * 12)
    result = check_broken(setting((0, 1, 7), lambda right: wrong.to(right)))
    assert result.verdict == "fail"
    assert result.tensor("O").wrong_nonfinite == SMALL.head_dim
    assert "NaN or infinity" in result.reason
    assert set(np.argwhere(np.isinf(result.map("O").values))[:, 0]) == {7}


def test_a_wrong_lse_or_gradient_fails_alone(check_broken):
    result = check_broken(lambda out, lse: (out, lse * 1.001))
    assert [tensor.name for tensor in result.failing] == ["lse"]
    result = check_broken(lambda out, lse: (out, lse), lambda dq, dk, dv: (dq, dk * 1.1, dv))
    assert [tensor.name for tensor in result.failing] == ["dK"]


def test_runs_that_differ_are_counted_but_are_no_verdict(check_broken):
    runs, where = itertools.count(), (0, 0, 3, slice(4))
    spoil = setting(where, lambda right: right + 1e-3 * (next(runs) == 2))
    result = check_broken(spoil, repeats=4)
    assert result.repeats.differing == {"O": 4, "lse": 0}
    assert not result.repeats.equal
    assert result.verdict == "pass"


def test_memory_that_nobody_wrote_is_seen(check_broken):
    def spoil(out, lse):
        holes = torch.empty_like(out)
        holes[:, :, 1:] = out[:, :, 1:]
        return holes, lse

    assert check_broken(spoil).tensor("O").wrong_nonfinite == SMALL.q_heads * SMALL.head_dim


def test_rows_without_a_key_must_give_zero(check_broken):
    problem = SMALL.with_(q_len=40)
    result = check_broken(lambda out, lse: (out, lse.index_fill(2, torch.tensor(3), 0.0)), problem=problem)
    assert result.tensor("lse").wrong_nonfinite == SMALL.q_heads
    assert result.verdict == "fail"


def test_the_probe_of_the_keys_sums_to_one_in_every_row():
    problem = AttentionProblem(q_len=24, kv_len=300, head_dim=16, block_n=16)
    query, key, value = map(torch.randn, (problem.q_shape, problem.kv_shape, problem.kv_shape))
    probe, keys = group_probe(value, problem.block_n)
    assert keys == 2 * problem.block_n  # 19 tiles, 16 columns
    weights = torch.softmax(query @ key.mT, dim=-1)
    out = weights @ probe
    torch.testing.assert_close(out.sum(dim=-1), torch.ones(1, 1, 24))
    torch.testing.assert_close(out[0, 0, :, 3], weights[0, 0, :, 3 * keys : 4 * keys].sum(dim=-1))


def test_a_map_keeps_the_largest_error_of_each_cell_and_the_worst_head():
    error = torch.zeros(2, 3, 1000, 300, dtype=torch.float64)
    error[1, 2, 999, 299] = 8.0
    error[0, 1, 7, 0] = 4.0
    found = error_map("O", error, 2.0)
    assert found.head == 5
    assert found.values[-1, -1] == 4.0
    assert found.values.shape == (-(-1000 // found.row_step), -(-300 // found.column_step))
    assert (found.values > 0).sum() == 1
