"""`flash_attention` in models of Hugging Face's transformers, through its interface for attention functions.

    import examples.hugging_face as ours

    ours.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation=ours.NAME)

A model that hands over a mask (padding, a cache with room left) is refused, and never computed without it.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels import flash_attention

NAME = "played_back"
"""A name with "flash" in it would make transformers look for a package of that name."""


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """One layer's attention, as transformers calls it.

    query (batch, q_heads, q_len, head_dim); key and value (batch, kv_heads, kv_len, head_dim). Returns
    (batch, q_len, q_heads, head_dim), and None for the weights, which are never made. Raises ValueError for a
    mask, for dropout, and for an option that would change the result.
    """
    for name in ("softcap", "s_aux", "position_bias", "cache"):
        if options.get(name) is not None:
            raise ValueError(f"{name} is not accepted: flash_attention has nothing like it")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    window = options.get("sliding_window")
    out = flash_attention(
        query,
        key,
        value,
        attention_mask,
        dropout,
        is_causal,
        scale=scaling,
        enable_gqa=True,
        window=None if window is None else (window - 1, None),  # transformers counts the query's own key
    )
    return out.transpose(1, 2), None


def register() -> None:
    """Make the attention known to transformers as NAME, with the masks of SDPA: None if none is needed."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)
