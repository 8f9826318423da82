"""Masks and scores beyond a band, and FlexAttention beside ours on each, in the same run."""

from kernels.problem import AttentionProblem

PEERS = ("ours", "flex")
_LENGTH = 8192
_DOCUMENTS = "1024 300 1748 2048 1000 2072"
_ASKED = {
    "documents": {"mask": "documents", "documents": _DOCUMENTS},
    "prefix": {"mask": "prefix", "prefix": 1024},
    "window with sinks": {"mask": "sinks", "window_left": 1023, "prefix": 4},
    "window in documents": {
        "mask": "expression",
        "expression": "k <= q and doc(q) == doc(k) and q - k < 512",
        "documents": _DOCUMENTS,
    },
    "softcap": {"mask": "causal", "softcap": 50},
    "ALiBi": {"mask": "causal", "alibi": 1},
    "window with sink logit": {"mask": "window", "window_left": 1023, "sink_logit": 1},
}
MASK_PROBLEMS = {
    (name, head_dim): AttentionProblem(
        q_heads=2048 // head_dim,
        kv_heads=2048 // head_dim,
        q_len=_LENGTH,
        kv_len=_LENGTH,
        head_dim=head_dim,
        dtype="bfloat16",
        **fields,  # type: ignore[arg-type]  # each field is checked
    )
    for head_dim in (64, 128)
    for name, fields in _ASKED.items()
}
