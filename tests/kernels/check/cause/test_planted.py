"""Mistakes planted in a small Triton kernel: each fails on a case that shows it, and the cause is named."""

from pathlib import Path

import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.problem import AttentionProblem

FILE = Path(__file__).parents[1] / "kernels/planted.py"
BASE = AttentionProblem(q_len=20, kv_len=40, head_dim=16, block_m=32, block_n=32)
SQUARE = BASE.with_(q_len=40, mask="causal")
CASES = {
    "plain": CheckCase(BASE),
    "growing": CheckCase(BASE.with_(inputs="growing_max")),
    "large": CheckCase(BASE.with_(inputs="large")),
    "two batches": CheckCase(BASE.with_(batch=2)),
    "causal": CheckCase(SQUARE),
    "causal, more keys": CheckCase(BASE.with_(mask="causal")),
    "rows without a key": CheckCase(BASE.with_(q_len=40, kv_len=20, mask="causal")),
    "shared heads": CheckCase(BASE.with_(q_heads=4, kv_heads=2)),
    "causal, shared heads": CheckCase(SQUARE.with_(q_heads=2, kv_heads=1)),
    "transposed": CheckCase(BASE.with_(q_heads=2, kv_heads=2), layout="transposed"),
}
"""Small cases with a property of the battery each: one or two tiles of queries, two of keys."""

TABLE = {
    "accumulator_not_rescaled": ("plain", "in which the accumulator is not rescaled"),
    "row_sum_not_rescaled": ("growing", "in which the row sum l is not rescaled"),
    "row_sum_of_the_last_tile": ("plain", "l is wrong, the rest is right"),
    "not_divided_by_l": ("plain", "not divided by the row sum l"),
    "row_max_not_subtracted": ("large", "without the row max subtracted"),
    "exp2_of_natural_units": ("plain", "a factor log2(e) missing"),
    "scale_missing": ("plain", "without the scale"),
    "scale_twice": ("plain", "the scale applied twice"),
    "causal_top_left": ("causal, more keys", "aligned to the top left"),
    "causal_sees_one_more": ("causal", "one key too many"),
    "causal_sees_one_less": ("causal", "one key too few"),
    "tail_not_masked": ("plain", "the tail is not masked, 24 keys"),
    "last_tile_missing": ("plain", "without the last key tile, keys 32 to 39"),
    "values_of_the_next_tile": ("plain", "the values of the next 32-key tile"),
    "gqa_modulo": ("shared heads", "h % kv_heads"),
    "batch_of_keys_missing": ("two batches", "K and V of batch 0"),
    "ignores_strides": ("transposed", "ignores their strides"),
    "keyless_rows_divide_by_zero": ("rows without a key", "NaN (0 / 0)"),
    "last_rows_not_written": ("causal", "never written, or 0 / 0, rows 32 to 39"),
    "lse_in_log2": ("plain", "lse equals the exact one in units of log2"),
    "changes_its_input": ("plain", ""),
    "delta_missing": ("plain", "dQ and dK equal those of a backward pass without delta"),
    "dk_without_scale": ("plain", "dK equals the exact one over the scale"),
    "dq_of_the_other_sign": ("plain", "dQ equals the exact one with the other sign"),
    "group_overwritten": ("causal, shared heads", "dK and dV equal those of the last query head"),
    "backward_sees_one_more": ("causal, shared heads", "(in the backward pass alone)"),
    "last_query_tile_missing_backward": (
        "causal, shared heads",
        "without the last query tile, rows 32 to 39",
    ),
}
"""By mistake: a case that fails, and words of the cause that is named for it."""
BACKWARD = [*TABLE][[*TABLE].index("delta_missing") :]


def checked(function, name, gradients=True):
    name_user_kernels([UserKernel.parse(f"{FILE}:{function}")])
    case = CASES[name]
    return run_check(CheckCase(case.problem, "user", gradients, 1, layout=case.layout))


@pytest.mark.parametrize("name", TABLE)
def test_a_mistake_fails_and_its_cause_is_named(name):
    case, cause = TABLE[name]
    result = checked(name, case, gradients=name in BACKWARD)
    assert result.verdict == "fail"
    assert cause in result.cause, result.cause
    if name in BACKWARD:
        assert result.tensor("O").passes
    if name == "changes_its_input":
        assert list(result.changed) == ["query"]
        assert result.tensor("O").passes


@pytest.mark.parametrize("name", CASES)
def test_the_right_kernel_passes_each_of_these_cases_and_has_no_cause(name):
    learns = name in ("plain", "causal, shared heads")
    result = checked("right", name, gradients=learns)
    assert (result.verdict, result.causes) == ("pass", ()), result.reason
    assert len(result.tensors) == (5 if learns else 2)
