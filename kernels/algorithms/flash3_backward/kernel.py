"""The kernel: what lies in shared memory, and the roles of its warps."""

from kernels.algorithms.flash3_backward.accumulate import accumulate
from kernels.algorithms.flash3_backward.d_query import sum_dq
from kernels.algorithms.flash3_backward.loader import load_tiles
from kernels.algorithms.flash3_backward.shared import Descriptors, make_shared
from kernels.algorithms.flash3_backward.work import SIZES, Heads, take_item
from kernels.primitives.marks import mark_program
from kernels.problem import Band

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared


@gluon.jit(do_not_specialize=SIZES)
def _attn_bwd_hopper(
    q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc, dq_sum, dk_desc, dv_desc, beside, q_heads,
    kv_heads, group_size, heads_in_turn, padded_rows, q_len, kv_len, left, right, FIXED: gl.constexpr,
):  # fmt: skip
    """dK and dV of one key tile of one key head, and its part of dQ, which lacks the scale; see the package.

    lse (in base 2), D and the sum of dQ have padded_rows rows per query head. `beside` are the scale, that
    in base 2, and a `recording.Written`.
    """
    scale, scale_log2, written = beside
    band = Band(q_len, kv_len, left, right)
    heads = Heads(q_heads, kv_heads, group_size, heads_in_turn, padded_rows)
    descs = Descriptors(q_desc, do_desc, k_desc, v_desc, lse_desc, delta_desc, dk_desc, dv_desc)
    shared = make_shared(descs, FIXED)
    fence_async_shared()
    item = take_item(heads, band, FIXED)
    mark_program(written.lanes, False)
    # Gluon takes no starred arguments, and a constexpr in a tuple variable would become a tensor.
    if FIXED.DQ_WARPGROUP:
        gl.warp_specialize(
            [
                (accumulate, (0, descs, dq_sum, shared, item, band, scale, scale_log2, written, FIXED)),
                (accumulate, (1, descs, dq_sum, shared, item, band, scale, scale_log2, written, FIXED)),
                (sum_dq, (dq_sum, shared, item, written.lanes, FIXED)),
                (load_tiles, (descs, shared, item, band, written.lanes, FIXED)),
            ],
            [4, 4, 1],
            [FIXED.KEY_REGISTERS, FIXED.QUERY_REGISTERS, FIXED.LOAD_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (accumulate, (0, descs, dq_sum, shared, item, band, scale, scale_log2, written, FIXED)),
                (accumulate, (1, descs, dq_sum, shared, item, band, scale, scale_log2, written, FIXED)),
                (load_tiles, (descs, shared, item, band, written.lanes, FIXED)),
            ],
            [4, 1],
            [FIXED.KEY_REGISTERS, FIXED.LOAD_REGISTERS],
        )
    mark_program(written.lanes, True)
