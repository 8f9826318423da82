"""Problems to start from. Their runs are recorded on a GPU, so that every machine can show them at once."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.problem.attention_problem import AttentionProblem


@dataclass(frozen=True)
class Preset:
    """A named problem and, in one line, what it shows."""

    label: str
    purpose: str
    problem: AttentionProblem
    algorithm: str | None = None
    """Name of the algorithm that the problem is about; None if it suits all of them."""


PRESETS = {
    "gpt2": Preset(
        "GPT-2 head",
        "1024 tokens, causal: almost half of the tiles are never visited",
        AttentionProblem(q_len=1024, kv_len=1024, head_dim=64, mask="causal"),
    ),
    "tiny": Preset(
        "Tiny",
        "8 x 8 tiles of 4 rows: small enough to follow every number",
        AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=4, block_n=4),
    ),
    "llama3": Preset(
        "Llama-3-8B head",
        "2048 tokens of head_dim 128 in bfloat16, 128 x 64 tiles",
        AttentionProblem(
            q_len=2048, kv_len=2048, head_dim=128, dtype="bfloat16", mask="causal", block_m=128, block_n=64
        ),
    ),
    "ragged": Preset(
        "Ragged",
        "200 queries over 328 keys of head_dim 80: nothing divides evenly",
        AttentionProblem(q_len=200, kv_len=328, head_dim=80, mask="causal", block_m=64, block_n=32),
    ),
    "layer": Preset(
        "GPT-2 layer",
        "12 heads of 1024 tokens, causal: 192 programs in waves over the SMs of a GPU",
        AttentionProblem(
            q_heads=12, kv_heads=12, q_len=1024, kv_len=1024, head_dim=64, mask="causal", block_n=128
        ),
    ),
    "window": Preset(
        "Sliding window",
        "1024 tokens that see the 255 before them: most tiles are never visited",
        AttentionProblem(
            q_len=1024, kv_len=1024, head_dim=64, mask="window", window_left=255, window_right=0
        ),
    ),
    "decode": Preset(
        "Decoding step",
        "Llama-3-8B's next token: 1 query, 32 heads over 8, against 8192 keys",
        AttentionProblem(
            q_heads=32,
            kv_heads=8,
            q_len=1,
            kv_len=8192,
            head_dim=128,
            dtype="bfloat16",
            block_m=16,
            block_n=64,
            kv_splits=16,
        ),
        algorithm="split_kv",
    ),
}

FIRST_PRESET = "gpt2"

LANE_PROBLEMS = {
    f"{mask}{head_dim}": AttentionProblem(
        q_heads=2048 // head_dim,
        kv_heads=2048 // head_dim,
        q_len=2048,
        kv_len=2048,
        head_dim=head_dim,
        mask=mask,
        block_m=128,
        block_n=128,
    )
    for head_dim in (64, 128)
    for mask in ("full", "causal")
}
"""Problems that keep all SMs of a large GPU busy. The lanes of their kernels are recorded, not the traces."""
