"""FlashAttention-1, forward."""
