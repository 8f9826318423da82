"""Number formats: how tiles are rounded, what a product computes, and base-2 units.

Scores are kept in base-2 units inside the kernels (`scale * log2(e)` is folded into one factor), because the
GPU has an exp2 instruction and no exp. Traces and lse are written in natural units.
"""

from kernels.device import runtime

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(runtime.INTERPRETED)
LN2 = tl.constexpr(0.6931471805599453)
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def from_memory(tile):
    """The tile as an operand of products. The interpreter lacks bfloat16 arithmetic, so it gets float32."""
    if INTERPRETED and tile.dtype == tl.bfloat16:
        tile = tile.to(tl.float32)
    return tile


@triton.jit
def to_memory(tile, DTYPE: tl.constexpr):
    """Round float32 to DTYPE, to nearest even. Some versions of the interpreter truncate to bfloat16."""
    if INTERPRETED and DTYPE == tl.bfloat16:
        bits = tile.to(tl.uint32, bitcast=True)
        bits = bits + 0x7FFF + ((bits >> 16) & 1)
        tile = (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        tile = tile.to(DTYPE)
    return tile


@triton.jit
def to_operand(tile, DTYPE: tl.constexpr):
    """Round a float32 tile to DTYPE, ready to be an operand of a product."""
    return from_memory(to_memory(tile, DTYPE))


@triton.jit
def matmul(a, b, acc, FIXED: tl.constexpr):
    """acc + a @ b in float32. Tensor cores need 16 rows and columns; smaller tiles do without them."""
    if a.shape[0] < 16 or b.shape[0] < 16 or b.shape[1] < 16:
        # Sum over the last axis: over a middle axis of length 4, Triton 3.6 gave wrong sums on an H200.
        acc += tl.sum(a.to(tl.float32)[:, None, :] * tl.trans(b).to(tl.float32)[None, :, :], axis=2)
    else:
        acc = tl.dot(a, b, acc, input_precision=FIXED.PRECISION)
    return acc
