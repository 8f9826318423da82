"""The cases that a kernel is checked on if none are asked for: each has something that kernels get wrong."""

from dataclasses import replace

from kernels.check.case.cases import PUBLIC_CALL, USERS, CheckCase
from kernels.problem import AttentionProblem

BASE = AttentionProblem(q_heads=2, kv_heads=2, block_m=32, block_n=32)

BATTERY = (
    CheckCase(BASE.with_(q_len=128, kv_len=128)),
    CheckCase(BASE.with_(q_len=70, kv_len=109, batch=2)),
    CheckCase(BASE.with_(q_len=128, kv_len=128, head_dim=32, mask="causal")),
    CheckCase(BASE.with_(q_len=113, kv_len=113, mask="causal")),
    CheckCase(BASE.with_(q_len=33, kv_len=290, head_dim=32, inputs="growing_max")),
    CheckCase(BASE.with_(q_len=70, kv_len=130, mask="causal")),
    CheckCase(BASE.with_(q_len=96, kv_len=64, mask="causal")),
    CheckCase(BASE.with_(q_len=40, kv_len=90, head_dim=32, q_heads=6, kv_heads=2, batch=2)),
    CheckCase(BASE.with_(q_len=40, kv_len=40, mask="causal", q_heads=4, kv_heads=2, batch=2)),
    CheckCase(BASE.with_(q_len=64, kv_len=96, head_dim=128)),
    CheckCase(BASE.with_(q_len=64, kv_len=64, head_dim=80, mask="causal")),
    CheckCase(BASE.with_(q_len=96, kv_len=160, dtype="bfloat16")),
    CheckCase(BASE.with_(q_len=64, kv_len=128, inputs="large")),
    CheckCase(BASE.with_(q_len=1, kv_len=2100)),
    CheckCase(BASE.with_(q_len=40, kv_len=70, batch=2), layout="transposed"),
    CheckCase(BASE.with_(q_len=50, kv_len=64, batch=2), layout="sliced"),
    CheckCase(BASE.with_(q_len=50, kv_len=50, mask="causal", batch=2), layout="packed"),
    CheckCase(BASE.with_(q_len=64, kv_len=96), scale=0.3),
    CheckCase(BASE.with_(q_len=40, kv_len=40, mask="causal", q_heads=4, kv_heads=2), scale=0.3),
    CheckCase(BASE.with_(q_len=33, kv_len=40, head_dim=32, q_heads=9, kv_heads=9)),
    CheckCase(BASE.with_(q_len=96, kv_len=96, mask="causal", inputs="large")),
    CheckCase(BASE.with_(q_len=290, kv_len=290, head_dim=32, mask="causal", q_heads=1, kv_heads=1)),
    CheckCase(BASE.with_(q_len=64, kv_len=90), layout="mixed"),
    CheckCase(BASE.with_(q_len=96, kv_len=96, mask="window", window_left=20, window_right=0)),
    CheckCase(
        BASE.with_(
            q_len=40, kv_len=100, mask="window", window_left=50, window_right=10, q_heads=4, kv_heads=2
        )
    ),
    CheckCase(BASE.with_(q_len=48, kv_len=65, head_dim=32)),
    CheckCase(BASE.with_(q_len=24, kv_len=40, head_dim=32, q_heads=4, kv_heads=1)),
    CheckCase(BASE.with_(q_len=20, kv_len=7, head_dim=32, inputs="large")),
    CheckCase(BASE.with_(q_len=40, kv_len=72, head_dim=96)),
    CheckCase(BASE.with_(q_len=40, kv_len=70, dtype="float32")),
    CheckCase(BASE.with_(q_len=40, kv_len=40, head_dim=32, mask="causal", dtype="float32")),
)
"""Lengths that no tile divides, batch 2, causal masks with equal and unequal lengths, windows, shared key
heads, one key head for all, one key more than tiles hold, fewer keys than a tile, many heads, several head
dims, bfloat16, float32, a row max that grows, scores that overflow or are far below 0, one query over many
keys, several tiles of 128 rows, other layouts.

Properties that a kernel may treat in a branch of its own meet each other: a causal mask with a batch, with a
scale and with float32; a batch with strides; a window with unequal lengths and shared heads."""


def battery(base: CheckCase) -> tuple[CheckCase, ...]:
    """The cases for the kernel of `base`, with its number of runs and whether its gradients are checked.

    Only the user's kernels and flash_attention take a scale, so only they get the case with one.
    """
    takes_scale = base.kernel in (*USERS, PUBLIC_CALL)
    return tuple(
        replace(case, kernel=base.kernel, gradients=base.gradients, repeats=base.repeats)
        for case in BATTERY
        if takes_scale or case.scale is None
    )
