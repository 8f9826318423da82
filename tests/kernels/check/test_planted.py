"""Mistakes planted in a small Triton kernel: each fails on the battery, and the cause is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernels.check.battery import BATTERY
from kernels.check.run import run_check
from kernels.check.user_kernel import UserKernel, name_user_kernels
from tests.kernels.check.planted import MISTAKES

FILE = Path(__file__).parent / "planted.py"

TABLE = {
    "accumulator_not_rescaled": (0, "in which the accumulator is not rescaled when the row max grows"),
    "row_sum_not_rescaled": (4, "in which the row sum l is not rescaled when the row max grows"),
    "row_sum_of_the_last_tile": (1, "divided by the sum of its weights: l is wrong, the rest is right"),
    "not_divided_by_l": (1, "attention that is not divided by the row sum l"),
    "row_max_not_subtracted": (12, "softmax without the row max subtracted: its exponentials overflow"),
    "exp2_of_natural_units": (1, "a factor log2(e) missing: exp2 of scores in natural units"),
    "scale_missing": (1, "attention without the scale on the scores"),
    "scale_twice": (9, "attention with the scale applied twice"),
    "causal_top_left": (5, "attention with the causal mask aligned to the top left"),
    "causal_sees_one_more": (3, "the mask off by one on the right: each query sees one key too many"),
    "causal_sees_one_less": (3, "the mask off by one on the right: each query sees one key too few"),
    "tail_not_masked": (1, "keys of zeros after the last: the tail is not masked, 19 keys"),
    "last_tile_missing": (1, "attention without the last key tile, keys 96 to 108"),
    "values_of_the_next_tile": (0, "attention with the values of the next 32-key tile"),
    "gqa_modulo": (7, "query head h reads key head h % kv_heads"),
    "batch_of_keys_missing": (1, "every batch reads K and V of batch 0"),
    "ignores_strides": (14, "takes the tensors for contiguous and ignores their strides"),
    "keyless_rows_divide_by_zero": (6, "rows that see no key give NaN (0 / 0) and not 0"),
    "last_rows_not_written": (
        3,
        "but for rows of NaN: never written, or 0 / 0, rows 96 to 112",
    ),
    "lse_in_log2": (0, "lse equals the exact one in units of log2"),
    "changes_its_input": (0, ""),
    "delta_missing": (0, "dQ and dK equal those of a backward pass without delta"),
    "dk_without_scale": (0, "dK equals the exact one over the scale: a factor scale is missing"),
    "dq_of_the_other_sign": (0, "dQ equals the exact one with the other sign"),
    "group_overwritten": (8, "dK and dV equal those of the last query head of each group"),
    "backward_sees_one_more": (8, "(in the backward pass alone)"),
    "last_query_tile_missing_backward": (
        8,
        "dK and dV equal those without the last query tile, rows 32 to 39",
    ),
}
"""By mistake: a case of the battery that fails, and the cause that is named for it."""
BACKWARD = MISTAKES[MISTAKES.index("delta_missing") :]


def checked(function, number, gradients=True):
    name_user_kernels([UserKernel.parse(f"{FILE}:{function}")])
    return run_check(replace(BATTERY[number], kernel="user", gradients=gradients, repeats=1))


def test_the_table_holds_every_mistake():
    assert tuple(TABLE) == MISTAKES


@pytest.mark.parametrize("name", TABLE)
def test_a_mistake_fails_and_its_cause_is_named(name):
    number, cause = TABLE[name]
    result = checked(name, number, gradients=name in BACKWARD)
    assert result.verdict == "fail"
    assert cause in result.cause, result.cause
    if name in BACKWARD:
        assert result.tensor("O").passes
    if name == "changes_its_input":
        assert list(result.changed) == ["query"]
        assert result.tensor("O").passes
        assert result.reason.startswith("it changes its inputs in place: query (")


# The planted kernel takes no window.
@pytest.mark.parametrize(
    "number",
    [number for number, case in enumerate(BATTERY) if case.problem.mask != "window"],
    ids=lambda number: BATTERY[number].words,
)
def test_the_right_kernel_passes_the_battery_and_has_no_cause(number):
    result = checked("right", number)
    assert (result.verdict, result.causes) == ("pass", ()), result.reason
    assert [tensor.name for tensor in result.tensors] == ["O", "lse", "dQ", "dK", "dV"]
