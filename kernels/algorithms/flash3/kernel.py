"""The kernel: buffers, and the roles of its warps."""

from kernels.algorithms.flash3.attend import attend
from kernels.algorithms.flash3.attend_wide import attend_wide
from kernels.algorithms.flash3.loader import load_tiles
from kernels.algorithms.flash3.rings import Descriptors, Rings, make_ring
from kernels.algorithms.flash3.turns import make_turns
from kernels.algorithms.flash3.work import Divisor, Work, are_claimed
from kernels.primitives.marks import mark_program
from kernels.problem import Band

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared

SIZES = (
    *("group_size", "q_len", "kv_len", "left", "right", "units", "q_tiles", "in_turn"),
    *(name + part for name in ("q_tiles", "in_turn", "q_heads") for part in ("_multiplier", "_shift")),
)
"""Arguments that are sizes: none is compiled in, so that one compiled kernel serves every shape.

They come one by one: `do_not_specialize` does not reach into a tuple."""


@gluon.jit(do_not_specialize=SIZES)
def _attn_fwd_hopper(
    q_desc, k_desc, v_desc, o_desc, beside, group_size, q_len, kv_len, left, right, units, q_tiles,
    q_tiles_multiplier, q_tiles_shift, in_turn, in_turn_multiplier, in_turn_shift, q_heads_multiplier,
    q_heads_shift, FIXED: gl.constexpr,
):  # fmt: skip
    """A persistent program; see the package. `beside` is a `rings.Beside`."""
    band = Band(q_len, kv_len, left, right)
    claims = are_claimed(units, gl.num_programs(0), FIXED.BOUND_RIGHT, kv_len)
    by_q_tiles = Divisor(q_tiles, q_tiles_multiplier, q_tiles_shift)
    by_q_heads = Divisor(q_desc.shape[1].to(gl.int32), q_heads_multiplier, q_heads_shift)
    work = Work(units, claims, by_q_tiles, Divisor(in_turn, in_turn_multiplier, in_turn_shift), by_q_heads)
    GROUPS: gl.constexpr = FIXED.GROUPS
    shape: gl.constexpr = o_desc.block_type.shape
    q_ring = make_ring(FIXED.Q_STAGES * GROUPS, 1, q_desc)
    if not FIXED.WIDE:
        o_buffers = gl.allocate_shared_memory(
            o_desc.dtype, [GROUPS, shape[0], shape[1], shape[2], shape[3]], o_desc.layout
        )
    k_ring = make_ring(FIXED.STAGES, GROUPS, k_desc)
    v_ring = make_ring(FIXED.STAGES, GROUPS, v_desc)
    turns = make_turns(GROUPS)
    UNITS: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    unit_slots = gl.allocate_shared_memory(gl.int32, [FIXED.Q_STAGES + 1, 1], UNITS)
    fence_async_shared()
    descs = Descriptors(q_desc, k_desc, v_desc, o_desc)
    rings = Rings(q_ring, k_ring, v_ring, turns, unit_slots)
    if FIXED.LANES:
        mark_program(beside.trace, False)
    # Gluon takes no starred arguments, and a constexpr in a tuple variable would become a tensor.
    if FIXED.WIDE:
        gl.warp_specialize([
            (attend_wide, (0, descs, rings, beside, band, work, FIXED)),
            (attend_wide, (1, descs, rings, beside, band, work, FIXED)),
            (load_tiles, (descs, rings, group_size, band, work, beside, FIXED)),
        ], [4, 1], [FIXED.COMPUTE_REGISTERS, FIXED.LOAD_REGISTERS])  # fmt: skip
    elif GROUPS == 2:
        gl.warp_specialize([
            (attend, (0, descs, rings, o_buffers, beside, band, work, FIXED)),
            (attend, (1, descs, rings, o_buffers, beside, band, work, FIXED)),
            (load_tiles, (descs, rings, group_size, band, work, beside, FIXED)),
        ], [4, 1], [FIXED.COMPUTE_REGISTERS, FIXED.LOAD_REGISTERS])  # fmt: skip
    else:
        gl.warp_specialize([
            (attend, (0, descs, rings, o_buffers, beside, band, work, FIXED)),
            (attend, (1, descs, rings, o_buffers, beside, band, work, FIXED)),
            (attend, (2, descs, rings, o_buffers, beside, band, work, FIXED)),
            (load_tiles, (descs, rings, group_size, band, work, beside, FIXED)),
        ], [4, 4, 1], [FIXED.COMPUTE_REGISTERS, FIXED.COMPUTE_REGISTERS, FIXED.LOAD_REGISTERS])  # fmt: skip
    if FIXED.LANES:
        mark_program(beside.trace, True)
