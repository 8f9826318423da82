"""Mistakes planted in a small Triton kernel: each fails on a case that shows it, and the cause is named."""

from pathlib import Path

import pytest

from kernels.check.case.cases import LAYOUTS, CheckCase
from kernels.problem import AttentionProblem
from kernels.sanitizer.finding import UNDEFINED

SOURCE = (Path(__file__).parents[1] / "kernels/planted.py").read_text()
BASE = AttentionProblem(q_len=20, kv_len=40, head_dim=16, block_m=32, block_n=32)
SQUARE = BASE.with_(q_len=40, mask="causal")
CASES = {
    "plain": BASE,
    "growing": BASE.with_(inputs="growing_max"),
    "large": BASE.with_(inputs="large"),
    "two batches": BASE.with_(batch=2),
    "causal": SQUARE,
    "more keys": BASE.with_(mask="causal"),
    "both unequal": BASE.with_(q_len=40, kv_len=60, mask="causal"),
    "keyless rows": BASE.with_(q_len=40, kv_len=20, mask="causal"),
    "shared heads": BASE.with_(q_heads=4, kv_heads=2),
    "causal, shared": SQUARE.with_(q_heads=2, kv_heads=1),
    "transposed": BASE.with_(q_heads=2, kv_heads=2),
    "mixed": BASE.with_(q_heads=2, kv_heads=2),
}
"""Small problems with a property of the battery each: one or two tiles of queries, two of keys."""

RESCALED, DIVISOR = "l = l * alpha + tl.sum(p, axis=1)", "tl.where(l == 0.0, 1.0, l)"
DIAGONAL, SCALE = "+ kv_len - q_len\n    m =", "is_causal, scale)"
STRIDES = "[tensor.stride() for tensor in (query, key, value, out)]"
IGNORED = '[torch.empty(t.shape, device="meta").stride() for t in (query, key, value, out)]'
Q_TILE = "    q_tile = tl.load(q_ptrs, mask=q_exist, other=0.0)\n"
CHANGED = f"{Q_TILE}    tl.store(q_ptrs, (q_tile * scale).to(q_tile.dtype), mask=q_exist)\n"
DS = "            dk_ptrs, exist ="
KEEP = f"            keep = tl.where(first == 0, 0.0, 1.0)\n{DS}"
LAST = ("q_end, keep = q_len, 1.0", "q_end, keep = (q_len - 1) // BLOCK * BLOCK, 1.0")
FIRST_ROW = "end = (tl.program_id(0) * BLOCK + kv_len - q_len) // BLOCK * BLOCK + BLOCK"
LSE = "lse equals the exact one in units"
SOFTMAX = f"p = tl.exp(scores - safe[:, None])\n        alpha = tl.exp(m - safe)\n        {RESCALED}"
LINEAR = "p, alpha, l = tl.where(visible, scores, 0.0), tl.full((BLOCK,), 1.0, tl.float32), l * 0.0 + 1.0"
FORWARD = (
    ("plain", "acc = acc * alpha[:, None]", "acc = acc * 1.0", "accumulator is not"),
    ("growing", RESCALED, "l = l + tl.sum(p, axis=1)", "the row sum l is not rescaled"),
    (
        "growing",
        "acc * alpha[:, None]",
        "acc * alpha[:, None] * alpha[:, None]",
        "accumulator is rescaled twice",
    ),
    ("growing", "alpha = tl.exp(", "alpha = tl.exp2(", "exp2 of a max in natural units"),
    ("plain", RESCALED, "l = tl.sum(p, axis=1)", "l is wrong, the rest is right"),
    ("plain", DIVISOR, "l * 0.0 + 1.0", "not divided by the row sum l"),
    ("large", "alpha = tl.exp(m - safe)", "p = tl.exp(scores); alpha = m * 0.0 + 1.0", "without the row max"),
    ("plain", "tl.exp(", "tl.exp2(", "a factor log2(e) missing"),
    ("plain", SCALE, "is_causal, 1.0)", "without the scale"),
    ("plain", SCALE, "is_causal, scale * scale)", "the scale applied twice"),
    ("more keys", DIAGONAL, "\n    m =", "to the top left"),
    ("both unequal", "end = kv_len", FIRST_ROW, "first row's diagonal"),
    ("more keys", "if CAUSAL:", "if CAUSAL and first + BLOCK >= kv_len:", "last key tile of each query tile"),
    ("causal", DIAGONAL, f"+ 1 {DIAGONAL}", "one key too many"),
    ("causal", DIAGONAL, f"- 1 {DIAGONAL}", "one key too few"),
    ("plain", "= keys[None, :] < kv_len", "= keys[None, :] >= 0", "not masked, 24 keys"),
    ("plain", "end = kv_len", "end = kv_len // BLOCK * BLOCK", "key tile, keys 32 to 39"),
    ("plain", "v_keys = keys", "v_keys = keys + BLOCK", "of the next 32-key tile"),
    ("shared heads", "= head // group", "= head % (heads // group)", "h % kv_heads"),
    ("two batches", "group, batch\n", "group, batch * 0\n", "K and V of batch 0"),
    ("transposed", STRIDES, IGNORED, "ignores their strides"),
    ("keyless rows", DIVISOR, "l", "NaN (0 / 0)"),
    ("causal", "triton.cdiv(q_len, 32)", "q_len // 32", "or 0 / 0, rows 32 to 39"),
    ("plain", "m + tl.log(l)", "(m + tl.log(l)) * 1.442695", LSE),
    ("plain", "m + tl.log(l)", "(m + tl.log(l)) * 0.43429448", f"{LSE} of log10"),
    ("plain", SOFTMAX, LINEAR, "there is no softmax"),
    (
        "causal",
        "<= diagonal)",
        "<= diagonal - tl.where(first == 0, 1, 0))",
        "of the first key tile: < instead",
    ),
    ("mixed", "_rows(v, v_strides", "_rows(v, k_strides", "reads V with the strides of K"),
    ("plain", Q_TILE, CHANGED, ""),
)
"""A case that fails, the code without and with the mistake, and words of the cause that is named."""
BACKWARD = (
    ("plain", " - row_delta[:, None]) * scale", ") * scale", "dQ and dK equal those of a backward"),
    ("plain", DS, f"            ds = ds / scale\n{DS}", "dK equals the exact one over the scale"),
    ("plain", "tl.store(dq_ptrs, dq_tile", "tl.store(dq_ptrs, -dq_tile", "the other sign"),
    ("causal, shared", DS, KEEP, "dK and dV equal those of the last query head"),
    ("causal, shared", "<= allowed", "<= allowed + 1", "(in the backward pass alone)"),
    ("causal, shared", *LAST, "without the last query tile, rows 32 to 39"),
)
"""Likewise, of the backward pass alone."""


def case_of(name, gradients):
    layout = name if name in LAYOUTS else "contiguous"
    return CheckCase(CASES[name], "user", gradients, 1, layout=layout)


@pytest.mark.parametrize(
    ("name", "right", "wrong", "cause", "gradients"),
    [(*each, learns) for learns, all_of in enumerate((FORWARD, BACKWARD)) for each in all_of],
)
def test_a_mistake_fails_and_its_cause_is_named(name, right, wrong, cause, gradients, checked):
    forward, mark, backward = SOURCE.partition("@triton.jit\ndef _load")
    in_forward = right in forward and not gradients
    planted = forward.replace(right, wrong) + mark + backward if in_forward else SOURCE.replace(right, wrong)
    assert planted != SOURCE
    result = checked(planted, "right", case_of(name, bool(gradients)))
    assert result.verdict == "fail"
    assert cause in result.cause, result.cause
    assert result.tensor("O").passes == (bool(gradients) or not cause or cause.startswith(LSE))
    assert list(result.changed) == ([] if cause else ["query"])


def test_a_cause_is_not_hidden_behind_undefined_lanes(checked):
    """Those of V reach O where their weights are 0; with 0 there, only the missing scale is wrong."""
    undefined = SOURCE.replace("tl.load(v_ptrs, mask=v_exist, other=0.0)", "tl.load(v_ptrs, mask=v_exist)", 1)
    alone = checked(undefined, "right", case_of("plain", gradients=False))
    both = checked(undefined.replace(SCALE, "is_causal, 1.0)"), "right", case_of("plain", gradients=False))
    for result, verdict in ((alone, "pass"), (both, "fail")):
        assert result.verdict == verdict
        assert [finding.kind for finding in result.findings] == [UNDEFINED]
    assert "without the scale" in both.cause


NOT_STARTED = 'm = tl.full((BLOCK,), float("-inf"), tl.float32)'
SMALL = BASE.with_(kv_len=7, head_dim=32, q_heads=2, kv_heads=2, inputs="large")
NEXT_TILE, ROW_LSE = ("v_keys = keys", "v_keys = keys + BLOCK"), "m + tl.log(l)"


@pytest.mark.parametrize(
    ("problem", "mistakes", "lse_passes", "cause"),
    [
        (SMALL, [(NOT_STARTED, "m = tl.zeros((BLOCK,), tl.float32)")], True, ""),  # like nine keys of zeros
        (BASE, [NEXT_TILE, (ROW_LSE, f"{ROW_LSE} + 0.01")], False, ""),
        (BASE, [NEXT_TILE, (ROW_LSE, f"({ROW_LSE}) * 1.442695")], False, "of the next 32-key tile"),
    ],
    ids=["right although", "off although", "in other units"],
)
def test_a_cause_that_the_lse_contradicts_is_none(problem, mistakes, lse_passes, cause, checked):
    planted = SOURCE
    for right, wrong in mistakes:
        assert right in planted
        planted = planted.replace(right, wrong)
    result = checked(planted, "right", CheckCase(problem, "user", gradients=False, repeats=1))
    assert (result.tensor("O").passes, result.tensor("lse").passes) == (False, lse_passes)
    assert cause in result.cause if cause else result.cause == ""


def test_lse_of_rows_without_keys_may_be_plus_infinity(checked):
    plus = SOURCE.replace("m + tl.log(l)", 'tl.where(l == 0.0, float("inf"), m + tl.log(l))')
    result = checked(plus, "right", case_of("keyless rows", gradients=False))
    assert result.verdict == "pass", result.reason
    assert any("convention" in note for note in result.notes)


@pytest.mark.parametrize(
    "name", ["plain", "large", "both unequal", "keyless rows", "causal, shared", "mixed"]
)
def test_the_right_kernel_passes_these_cases_and_has_no_cause(name, checked):
    learns = name in ("plain", "causal, shared")
    result = checked(SOURCE, "right", case_of(name, learns))
    assert (result.verdict, result.causes) == ("pass", ()), result.reason
    assert len(result.tensors) == (5 if learns else 2)
