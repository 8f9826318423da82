"""The output that a warpgroup writes."""

from kernels.primitives.masking import sees_a_key
from kernels.primitives.numbers import LN2

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # its name until Triton 3.6


@gluon.jit
def write_out(acc, m, l, o_buffer, o_desc, lse_ptr, batch, head, q_heads, first_q, band, FIXED: gl.constexpr):
    """Normalise, and write the rows of O and lse that exist. O may still be on its way on return."""
    ROWS: gl.constexpr = FIXED.ROWS
    BLOCK_D: gl.constexpr = FIXED.BLOCK_D
    ROW_LAYOUT: gl.constexpr = m.type.layout
    LAYOUT: gl.constexpr = acc.type.layout
    # [store O, lse]
    offs_m = first_q + gl.arange(0, ROWS, layout=ROW_LAYOUT)
    lse = m * LN2 + gl.log(l)
    o = acc * gl.convert_layout(1.0 / l, gl.SliceLayout(1, LAYOUT))[:, None]
    if FIXED.BOUND_LEFT or FIXED.BOUND_RIGHT:  # a row that sees no key gives 0 and -inf
        lse = gl.where(sees_a_key(offs_m, band), lse, float("-inf"))
        # If the first and the last row see a key, all between do.
        if not (sees_a_key(first_q, band) & sees_a_key(first_q + ROWS - 1, band)):
            rows_of_o = first_q + gl.arange(0, ROWS, layout=gl.SliceLayout(1, LAYOUT))
            o = gl.where(sees_a_key(rows_of_o, band)[:, None], o, 0.0)
    rows = lse_ptr + (batch * q_heads + head).to(gl.int64) * band.q_len
    gl.store(rows + offs_m, lse, mask=offs_m < band.q_len)
    tma.store_wait(0)  # the output before this one has left the buffer
    barrier()
    o_buffer.reshape([ROWS, BLOCK_D]).store(o.to(o_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(o_desc, [batch, head, first_q, 0], o_buffer)
