"""Mistakes planted in a small Triton kernel: each fails on a case that shows it, and the cause is named."""

from pathlib import Path

import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.problem import AttentionProblem

SOURCE = (Path(__file__).parents[1] / "kernels/planted.py").read_text()
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

DIAGONAL, RESCALED = "    diagonal = rows[:, None] + kv_len - q_len\n", "l = l * alpha + tl.sum(p, axis=1)"
Q_TILE = "    q_tile = tl.load(q_ptrs, mask=q_exist, other=0.0)\n"
STORED = "    tl.store(q_ptrs, q_tile, mask=q_exist)\n    scale = 1.0\n"
CHANGED = f"{Q_TILE}    q_tile = (q_tile * scale).to(q_tile.dtype)\n{STORED}"
SCALE = "    return _Attention.apply(query, key, value, is_causal, scale)"
DS = "            dk_ptrs, exist ="
FORWARD = {
    "accumulator not rescaled": (
        "plain",
        "acc = acc * alpha[:, None]",
        "acc = acc * 1.0",
        "accumulator is not",
    ),
    "row sum not rescaled": (
        "growing",
        RESCALED,
        "l = l + tl.sum(p, axis=1)",
        "the row sum l is not rescaled",
    ),
    "row sum of the last tile": ("plain", RESCALED, "l = tl.sum(p, axis=1)", "l is wrong, the rest is right"),
    "not divided by l": (
        "plain",
        "tl.where(l == 0.0, 1.0, l)",
        "l * 0.0 + 1.0",
        "not divided by the row sum l",
    ),
    "row max not subtracted": (
        "large",
        "        alpha = tl.exp(m - safe)\n",
        "        p = tl.exp(scores)\n        alpha = tl.where(m == float('-inf'), 0.0, 1.0)\n",
        "without the row max subtracted",
    ),
    "exp2 of natural units": ("plain", "tl.exp(", "tl.exp2(", "a factor log2(e) missing"),
    "scale missing": ("plain", SCALE, SCALE.replace("scale)", "1.0)"), "without the scale"),
    "scale twice": ("plain", SCALE, SCALE.replace("scale)", "scale * scale)"), "the scale applied twice"),
    "causal top left": ("causal, more keys", DIAGONAL, "    diagonal = rows[:, None]\n", "to the top left"),
    "causal sees one more": ("causal", DIAGONAL, f"{DIAGONAL}    diagonal += 1\n", "one key too many"),
    "causal sees one less": ("causal", DIAGONAL, f"{DIAGONAL}    diagonal -= 1\n", "one key too few"),
    "tail not masked": ("plain", "= keys[None, :] < kv_len", "= keys[None, :] >= 0", "not masked, 24 keys"),
    "last tile missing": (
        "plain",
        "end = kv_len",
        "end = kv_len // BLOCK * BLOCK",
        "key tile, keys 32 to 39",
    ),
    "values of the next tile": ("plain", "v_keys = keys", "v_keys = keys + BLOCK", "of the next 32-key tile"),
    "gqa modulo": ("shared heads", "= head // group", "= head % (heads // group)", "h % kv_heads"),
    "batch of keys missing": ("two batches", "group, batch\n", "group, batch * 0\n", "K and V of batch 0"),
    "ignores strides": (
        "transposed",
        "[tensor.stride() for tensor in (query, key, value, out)]",
        '[torch.empty(t.shape, device="meta").stride() for t in (query, key, value, out)]',
        "ignores their strides",
    ),
    "keyless rows divide by zero": ("rows without a key", "tl.where(l == 0.0, 1.0, l)", "l", "NaN (0 / 0)"),
    "last rows not written": ("causal", "triton.cdiv(q_len, 32)", "q_len // 32", "or 0 / 0, rows 32 to 39"),
    "lse in log2": (
        "plain",
        "m + tl.log(l)",
        "(m + tl.log(l)) * 1.442695",
        "lse equals the exact one in units",
    ),
    "changes its input": ("plain", Q_TILE, CHANGED, ""),
}
"""By mistake: a case that fails, the code without and with it, and words of the cause that is named."""
BACKWARD = {
    "delta missing": (
        "plain",
        " - row_delta[:, None]) * scale",
        ") * scale",
        "dQ and dK equal those of a backward",
    ),
    "dk without scale": (
        "plain",
        DS,
        f"            ds = ds / scale\n{DS}",
        "dK equals the exact one over the scale",
    ),
    "dq of the other sign": (
        "plain",
        "tl.store(dq_ptrs, dq_tile",
        "tl.store(dq_ptrs, -dq_tile",
        "the other sign",
    ),
    "group overwritten": (
        "causal, shared heads",
        DS,
        f"            keep = tl.where(first == 0, 0.0, 1.0)\n{DS}",
        "dK and dV equal those of the last query head",
    ),
    "sees one more": ("causal, shared heads", "<= allowed", "<= allowed + 1", "(in the backward pass alone)"),
    "last query tile missing": (
        "causal, shared heads",
        "q_end, keep = q_len, 1.0",
        "q_end, keep = (q_len - 1) // BLOCK * BLOCK, 1.0",
        "without the last query tile, rows 32 to 39",
    ),
}
"""Likewise, of the backward pass alone."""


@pytest.fixture
def checked(tmp_path):
    def check(source, name, gradients):
        (tmp_path / "mine.py").write_text(source)
        name_user_kernels([UserKernel.parse(f"{tmp_path}/mine.py:right")])
        case = CASES[name]
        return run_check(CheckCase(case.problem, "user", gradients, 1, layout=case.layout))

    return check


@pytest.mark.parametrize("name", [*FORWARD, *BACKWARD])
def test_a_mistake_fails_and_its_cause_is_named(name, checked):
    case, right, wrong, cause = (FORWARD | BACKWARD)[name]
    assert right in SOURCE
    forward, backward = SOURCE.split("@triton.jit\ndef _load")
    planted = SOURCE.replace(right, wrong)
    if name in FORWARD and right in forward:
        planted = f"{forward.replace(right, wrong)}@triton.jit\ndef _load{backward}"
    result = checked(planted, case, gradients=name in BACKWARD)
    assert result.verdict == "fail"
    assert cause in result.cause, result.cause
    assert result.tensor("O").passes == (name in BACKWARD or name in ("lse in log2", "changes its input"))
    assert list(result.changed) == (["query"] if name == "changes its input" else [])


@pytest.mark.parametrize("name", CASES)
def test_the_right_kernel_passes_each_of_these_cases_and_has_no_cause(name, checked):
    learns = name in ("plain", "causal, shared heads")
    result = checked(SOURCE, name, gradients=learns)
    assert (result.verdict, result.causes) == ("pass", ()), result.reason
    assert len(result.tensors) == (5 if learns else 2)
