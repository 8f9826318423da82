"""FlashAttention-2, forward."""
