"""Multi-head self-attention around `flash_attention` (Vaswani et al. 2017).

Chu, Liu and Lin 2026, appendix, derive its gradients.
"""

import torch
from torch import nn

from kernels.attention.flash_attention import flash_attention


class MultiHeadAttention(nn.Module):
    """Self-attention of (batch, length, embed_dim): project to Q, K and V, attend in each head, project back.

    With fewer `num_kv_heads` than `num_heads`, several query heads share a key and value head. The parameters
    are those of `torch.nn.MultiheadAttention`, with its projection of the input split in three. Raises
    ValueError if the numbers do not fit together.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        bias: bool = True,
        is_causal: bool = False,
    ) -> None:
        super().__init__()
        num_kv_heads = num_kv_heads or num_heads
        if embed_dim % num_heads or num_heads % num_kv_heads:
            raise ValueError(
                f"embed_dim={embed_dim}, num_heads={num_heads}, num_kv_heads={num_kv_heads} do not fit: "
                "expected num_heads to divide embed_dim, and num_kv_heads to divide num_heads"
            )
        self.head_dim = embed_dim // num_heads
        self.num_heads, self.num_kv_heads, self.is_causal = num_heads, num_kv_heads, is_causal
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.k_proj = nn.Linear(embed_dim, num_kv_heads * self.head_dim, bias)
        self.v_proj = nn.Linear(embed_dim, num_kv_heads * self.head_dim, bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, embed_dim) -> the same shape."""
        # Views are enough: the kernels accept the strides of (batch, length, heads, head_dim).
        query, key, value = (
            projection(x).unflatten(-1, (heads, self.head_dim)).transpose(1, 2)
            for projection, heads in (
                (self.q_proj, self.num_heads),
                (self.k_proj, self.num_kv_heads),
                (self.v_proj, self.num_kv_heads),
            )
        )
        attended = flash_attention(query, key, value, is_causal=self.is_causal, enable_gqa=True)
        return self.out_proj(attended.transpose(1, 2).flatten(-2))
