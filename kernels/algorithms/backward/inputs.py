"""What the gradients of attention are computed from, by whichever kernels."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from kernels.oracle.exact import Gradients
from kernels.problem import Band, Pattern


@dataclass(frozen=True)
class BackwardInputs:
    """The inputs of the forward pass, its results, and the gradients of the results.

    query and out are (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, kv_len, head_dim), in
    any strides; lse is (batch, q_heads, q_len) and float32.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    d_out: torch.Tensor
    band: Band
    scale: float
    d_lse: torch.Tensor | None = None
    """Contiguous; None for 0."""
    pattern: Pattern | None = None
    per_head: Mapping[str, torch.Tensor] | None = None
    """As in `launch_on_tiles`."""

    def empty_gradients(self) -> Gradients:
        """Room for dQ, dK and dV, shaped and typed as query, key and value."""
        return torch.empty_like(self.query), torch.empty_like(self.key), torch.empty_like(self.value)
