"""FlashAttention forward for Hopper GPUs: loads, products and softmax of different tiles at the same time.

Shah et al. 2024, "FlashAttention-3", sections 3.1 and 3.2, for 16-bit types. Same algorithm and same order of tiles as forward.py,
which says what happens in a tile step; this file says when. It is written in Gluon, Triton's explicit layer, because the
plain language keeps softmax and products in turn. What overlaps:

- One warp loads tiles by TMA; two or three warpgroups of 64 query rows each compute. While one is in its softmax, another
  multiplies.
- In a warpgroup, Q K^T of a key tile is issued together with P V of the tile before it.
- A program stays on its SM and takes one query tile after another. The first Q K^T of the next runs beside the last P V of
  this one, and the output of this one leaves while the next computes.
"""

from __future__ import annotations

import torch

from kernels.primitives.launch import (
    TileConfig,
    band_arguments,
    can_use_tma,
    launch_info,
    on_device,
    sm_count,
)
from kernels.primitives.recorder import (
    DEVICE,
    ROW_COLUMNS,
    Recorder,
    TileRows,
    assemble,
    make_recorder,
    record_bytes,
    record_end,
    record_start,
    record_where,
)
from kernels.primitives.softmax import BACKEND, LN2
from kernels.primitives.tuning import gluon_is_known, hopper_config
from kernels.problem import AttentionProblem, InvalidProblem, tiles
from kernels.problem.inputs import make_inputs
from kernels.trace.trace import LaunchInfo, Trace

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.extra.cuda import globaltimer

REQUESTS = (("Q", "read"), ("K", "read"), ("V", "read"), ("O", "write"), ("lse", "write"))
READ_Q, READ_K, READ_V, WRITE_O, WRITE_LSE = (gl.constexpr(column) for column in range(len(REQUESTS)))
ROW_FIELDS = ("row_max", "row_sum", "alpha")
ROWS = gl.constexpr(64)
"""Query rows of a warpgroup: the height of its matrix instruction."""
GLUON_DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}
REGISTERS = {2: (240, 24), 3: (160, 32)}
"""Registers of a thread that computes and of one that loads, by the number of warpgroups that compute."""

SIZES = (
    "group_size", "q_len", "kv_len", "left", "right",
    "pairs", "units", "q_tiles", "per_head", "per_head_multiplier", "per_head_shift", "q_heads", "q_heads_multiplier", "q_heads_shift", "max_steps",
)  # fmt: skip
"""Arguments of the kernel that are sizes: none is compiled in, so that one compiled kernel serves every shape."""

barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # its name until Triton 3.6
first_visited_tile = gluon.jit(tiles.first_visited_tile)
end_visited_tile = gluon.jit(tiles.end_visited_tile)
first_full_tile = gluon.jit(tiles.first_full_tile)
end_full_tile = gluon.jit(tiles.end_full_tile)


@gluon.jit
def _divide(number, by):
    """number // divisor for 0 <= number < 2^31, without the long sequence of a division; see `divisor`."""
    multiplier, shift = by
    return gl.where(multiplier == 0, number, gl.umulhi(number, multiplier) >> shift)


@gluon.jit
def _place(unit, second, work):
    """(batch, head, query tile) of a unit of work, or of its second half. See `work_units`."""
    pairs, units, q_tiles, per_head, by_per_head, q_heads, by_q_heads = work
    in_turn = (unit < pairs) | (pairs == 0)
    turn = _divide(unit, by_per_head)
    place = unit - turn * per_head
    batch_head = gl.where(in_turn, turn, unit - pairs)
    q_tile = gl.where(in_turn, gl.where(second, place, q_tiles - 1 - place), q_tiles // 2)
    batch = _divide(batch_head, by_q_heads)
    return batch, batch_head - batch * q_heads, q_tile


@gluon.jit
def _next(unit, second, work):
    """The unit, and whether its second half, that this program takes after this one."""
    stays = (unit < work[0]) & (second == False)  # noqa: E712 (a tensor)
    return gl.where(stays, unit, unit + gl.num_programs(0)), stays


@gluon.jit
def _key_tiles(q_tile, q_len, kv_len, left, right, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr):
    """(first, end, first_full, end_full) of tiles.VisitedTiles; one tile at least, wholly masked where the rows see no key."""
    first = gl.minimum(
        first_visited_tile(q_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N), gl.cdiv(kv_len, BLOCK_N) - 1
    )
    end = gl.maximum(end_visited_tile(q_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N), first + 1)
    first_full = first_full_tile(q_tile, q_len, kv_len, left, BLOCK_M, BLOCK_N)
    return first, end, first_full, end_full_tile(q_tile, q_len, kv_len, right, BLOCK_M, BLOCK_N)


@gluon.jit
def _load(desc, batch, head, row, ring, turn, SLOTS: gl.constexpr):
    """Copy the tile from `row` on into slot `turn % SLOTS` of a ring of buffers, once those who read the slot have left it."""
    buffers, full, empty = ring
    slot = turn % SLOTS
    mbarrier.wait(empty.index(slot), (turn // SLOTS + 1) & 1)
    mbarrier.expect(full.index(slot), desc.block_type.nbytes)
    tma.async_copy_global_to_shared(desc, [batch, head, row, 0], full.index(slot), buffers.index(slot))


@gluon.jit
def _load_tiles(
    descs, rings, problem, work, BLOCK_N: gl.constexpr, GROUPS: gl.constexpr, STAGES: gl.constexpr, Q_STAGES: gl.constexpr,
):  # fmt: skip
    """The warp that loads. V of a tile is asked for after K of the next, the order in which they are used."""
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    q_desc, k_desc, v_desc, o_desc = descs
    q_ring, k_ring, v_ring = rings
    group_size, q_len, kv_len, left, right = problem
    units = work[1]
    unit = gl.program_id(0)
    second = gl.program_id(0) < 0
    item = 0
    step = 0
    batch = 0
    kv_head = 0
    row = 0
    while unit < units:
        new_batch, head, q_tile = _place(unit, second, work)
        first, end, first_full, end_full = _key_tiles(q_tile, q_len, kv_len, left, right, BLOCK_M, BLOCK_N)
        for group in gl.static_range(GROUPS):
            _load(
                q_desc,
                new_batch,
                head,
                q_tile * BLOCK_M + group * ROWS,
                q_ring,
                item * GROUPS + group,
                Q_STAGES * GROUPS,
            )
        for kv_tile in range(first, end):
            _load(k_desc, new_batch, head // group_size, kv_tile * BLOCK_N, k_ring, step, STAGES)
            if step > 0:
                _load(v_desc, batch, kv_head, row, v_ring, step - 1, STAGES)
            batch = new_batch
            kv_head = head // group_size
            row = kv_tile * BLOCK_N
            step += 1
        item += 1
        unit, second = _next(unit, second, work)
    _load(v_desc, batch, kv_head, row, v_ring, step - 1, STAGES)


@gluon.jit
def _scores(
    q, k_ring, step, BLOCK_N: gl.constexpr, BLOCK_D: gl.constexpr, STAGES: gl.constexpr, LAYOUT: gl.constexpr
):
    """Issue Q K^T of this step's key tile: (ROWS, BLOCK_N), float32."""
    buffers, full, empty = k_ring
    slot = step % STAGES
    mbarrier.wait(full.index(slot), (step // STAGES) & 1)
    k = buffers.index(slot).reshape([BLOCK_N, BLOCK_D])
    return warpgroup_mma(
        q, k.permute((1, 0)), gl.zeros([ROWS, BLOCK_N], gl.float32, LAYOUT), use_acc=False, is_async=True
    )


@gluon.jit
def _add_values(
    p, acc, adds, v_ring, step, BLOCK_N: gl.constexpr, BLOCK_D: gl.constexpr, STAGES: gl.constexpr
):
    """Issue acc + P V of this step's key tile, or P V alone where `adds` is false: (ROWS, BLOCK_D), float32."""
    buffers, full, empty = v_ring
    slot = step % STAGES
    mbarrier.wait(full.index(slot), (step // STAGES) & 1)
    return warpgroup_mma(p, buffers.index(slot).reshape([BLOCK_N, BLOCK_D]), acc, use_acc=adds, is_async=True)


@gluon.jit
def _release(ring, turn, SLOTS: gl.constexpr):
    """Say that this warpgroup has read the slot, which may be loaded anew once all have."""
    buffers, full, empty = ring
    mbarrier.arrive(empty.index(turn % SLOTS))


@gluon.jit
def _softmax(
    scores, m, l, first_q, kv_tile, first_full, end_full, q_len, kv_len, left, right, scale_log2,
    BOUND_LEFT: gl.constexpr, BOUND_RIGHT: gl.constexpr, RAGGED: gl.constexpr, BLOCK_N: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Mask, row max, exponentials and row sum of a tile, as forward.py has them. Returns P, m, l and alpha."""
    if BOUND_LEFT or BOUND_RIGHT or RAGGED:
        if (kv_tile < first_full) | (
            kv_tile >= end_full
        ):  # a branch, as a second loop over the same Q came out wrong (ptxas 12.8)
            offs_n = gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, LAYOUT))
            diagonal = (
                first_q
                + gl.arange(0, ROWS, layout=gl.SliceLayout(1, LAYOUT))
                + (kv_len - q_len - kv_tile * BLOCK_N)
            )
            last = gl.full([ROWS], kv_len - 1 - kv_tile * BLOCK_N, gl.int32, gl.SliceLayout(1, LAYOUT))
            if BOUND_RIGHT:
                last = gl.minimum(diagonal + right, last)
            scores = gl.where(offs_n[None, :] <= last[:, None], scores, float("-inf"))
            if BOUND_LEFT:
                scores = gl.where(offs_n[None, :] >= (diagonal - left)[:, None], scores, float("-inf"))
    m_new = gl.maximum(m, gl.max(scores, axis=1) * scale_log2)
    shift = gl.where(m_new == float("-inf"), 0.0, m_new)
    p = gl.exp2(scores * scale_log2 - shift[:, None])
    alpha = gl.exp2(m - shift)
    return p, m_new, l * alpha + gl.sum(p, axis=1), alpha


@gluon.jit
def _write_out(
    acc, m, l, o_buffer, o_desc, lse_ptr, batch, head, q_heads, first_q, q_len, kv_len, left, right,
    BOUND_LEFT: gl.constexpr, BOUND_RIGHT: gl.constexpr, BLOCK_D: gl.constexpr, ROW_LAYOUT: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Normalise, and write the rows of O and lse that exist. O is on its way when this returns."""
    offs_m = first_q + gl.arange(0, ROWS, layout=ROW_LAYOUT)
    lse = m * LN2 + gl.log(l)
    o = acc * gl.convert_layout(1.0 / l, gl.SliceLayout(1, LAYOUT))[:, None]
    if BOUND_LEFT or BOUND_RIGHT:  # a row that sees no key gives 0 and -inf
        diagonal = offs_m + (kv_len - q_len)
        sees_a_key = (diagonal + right >= 0) & (diagonal - left < kv_len)
        lse = gl.where(sees_a_key, lse, float("-inf"))
        o = gl.where(gl.convert_layout(sees_a_key, gl.SliceLayout(1, LAYOUT))[:, None], o, 0.0)
    gl.store(lse_ptr + (batch * q_heads + head).to(gl.int64) * q_len + offs_m, lse, mask=offs_m < q_len)
    tma.store_wait(0)  # the output before this one has left the buffer
    barrier()
    o_buffer.reshape([ROWS, BLOCK_D]).store(o.to(o_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(o_desc, [batch, head, first_q, 0], o_buffer)


@gluon.jit
def _record_step(
    trace, max_steps, GROUP: gl.constexpr, batch_head, q_tile, q_tiles, kv_tile, first, end, m, l, alpha, start, q_len, kv_len, row_bytes,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, ROW_LAYOUT: gl.constexpr,
):  # fmt: skip
    """What forward.py records of a step. Each warpgroup writes its rows, the first also the rest; `start` is its clock when Q K^T was issued."""
    slot = (batch_head * q_tiles + q_tile) * max_steps + kv_tile - first
    rows = (
        trace.rows
        + slot.to(gl.int64) * (ROW_COLUMNS * BLOCK_M)
        + GROUP * ROWS
        + gl.arange(0, ROWS, layout=ROW_LAYOUT)
    )
    gl.store(rows, m * LN2)
    gl.store(rows + BLOCK_M, l)
    gl.store(rows + 2 * BLOCK_M, alpha)
    if GROUP == 0:
        record_where(trace, slot, batch_head, q_tile, kv_tile)
        key_bytes = gl.minimum(kv_len - kv_tile * BLOCK_N, BLOCK_N) * row_bytes
        record_bytes(trace, slot, key_bytes, READ_K)
        record_bytes(trace, slot, key_bytes, READ_V)
        n_rows = gl.minimum(q_len - q_tile * BLOCK_M, BLOCK_M)
        if kv_tile == first:
            record_bytes(trace, slot, n_rows * row_bytes, READ_Q)
        if kv_tile + 1 == end:
            record_bytes(trace, slot, n_rows * row_bytes, WRITE_O)
            record_bytes(trace, slot, n_rows * 4, WRITE_LSE)
        record_start(trace, slot)  # names the SM; the start itself lies behind
        gl.store(trace.clock + slot.to(gl.int64) * 3, start)
        record_end(trace, slot)


@gluon.jit
def _attend(
    GROUP: gl.constexpr, descs, rings, o_buffers, lse_ptr, problem, work, scale_log2, trace, max_steps,
    BOUND_LEFT: gl.constexpr, BOUND_RIGHT: gl.constexpr, RAGGED: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_D: gl.constexpr,
    GROUPS: gl.constexpr, STAGES: gl.constexpr, Q_STAGES: gl.constexpr, TRACE: gl.constexpr,
):  # fmt: skip
    """A warpgroup that computes: rows GROUP * ROWS and on of every query tile of this program."""
    BLOCK_M: gl.constexpr = GROUPS * ROWS
    q_desc, k_desc, v_desc, o_desc = descs
    q_ring, k_ring, v_ring = rings
    group_size, q_len, kv_len, left, right = problem
    units = work[1]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BLOCK_N, 16]
    )
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BLOCK_D, 16]
    )
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    DTYPE: gl.constexpr = o_desc.dtype
    q_buffers, q_full, q_empty = q_ring
    o_buffer = o_buffers.index(GROUP)
    q_heads = work[5]
    row_bytes = o_desc.shape[3].to(gl.int32) * (DTYPE.primitive_bitwidth // 8)

    unit = gl.program_id(0)
    second = unit < 0
    item = 0
    step = 0
    batch, head, q_tile = _place(unit, second, work)
    first, end, first_full, end_full = _key_tiles(q_tile, q_len, kv_len, left, right, BLOCK_M, BLOCK_N)
    first_q = q_tile * BLOCK_M + GROUP * ROWS
    mbarrier.wait(q_full.index(GROUP), 0)
    if TRACE:
        start = globaltimer()
    first_scores = _scores(
        q_buffers.index(GROUP).reshape([ROWS, BLOCK_D]), k_ring, step, BLOCK_N, BLOCK_D, STAGES, S_LAYOUT
    )
    first_scores = warpgroup_mma_wait(0, deps=[first_scores])
    _release(k_ring, step, STAGES)
    done_m = gl.full([ROWS], float("-inf"), gl.float32, ROW_LAYOUT)
    done_l = gl.zeros([ROWS], gl.float32, ROW_LAYOUT)
    first_p, m, l, alpha = _softmax(
        first_scores, done_m, done_l, first_q, first, first_full, end_full, q_len, kv_len, left, right, scale_log2,
        BOUND_LEFT, BOUND_RIGHT, RAGGED, BLOCK_N, S_LAYOUT,
    )  # fmt: skip
    if TRACE:
        _record_step(
            trace, max_steps, GROUP, batch * q_heads + head, q_tile, work[2], first, first, end, m, l, alpha, start, q_len, kv_len, row_bytes,
            BLOCK_M, BLOCK_N, ROW_LAYOUT,
        )  # fmt: skip
    p = gl.convert_layout(first_p.to(DTYPE), P_LAYOUT)
    acc = gl.zeros([ROWS, BLOCK_D], gl.float32, O_LAYOUT)
    adds = second  # false: P V of an item's first tile starts its sum
    begins = second
    from_tile = first + 1
    to_tile = end
    done_batch, done_head, done_q = (
        0,
        0,
        0,
    )  # (not names for batch, head, first_q: Triton would not see them change in the loop)
    more = True
    while more:
        # Two rounds an item: its first tile, beside the last P V of the item before; then the others.
        q = q_buffers.index((item % Q_STAGES) * GROUPS + GROUP).reshape([ROWS, BLOCK_D])
        for kv_tile in range(from_tile, to_tile):
            step += 1
            if TRACE:
                start = globaltimer()
            acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
            scores = _scores(q, k_ring, step, BLOCK_N, BLOCK_D, STAGES, S_LAYOUT)
            acc = _add_values(p, acc, adds, v_ring, step - 1, BLOCK_N, BLOCK_D, STAGES)
            scores = warpgroup_mma_wait(1, deps=[scores])
            _release(k_ring, step, STAGES)
            new_p, m, l, alpha = _softmax(
                scores, m, l, first_q, kv_tile, first_full, end_full, q_len, kv_len, left, right, scale_log2,
                BOUND_LEFT, BOUND_RIGHT, RAGGED, BLOCK_N, S_LAYOUT,
            )  # fmt: skip
            acc, p = warpgroup_mma_wait(0, deps=[acc, p])  # p as well: its registers are read until then
            _release(v_ring, step - 1, STAGES)
            if TRACE:
                _record_step(
                    trace, max_steps, GROUP, batch * q_heads + head, first_q // BLOCK_M, work[2], kv_tile, first, end, m, l, alpha, start,
                    q_len, kv_len, row_bytes, BLOCK_M, BLOCK_N, ROW_LAYOUT,
                )  # fmt: skip
            p = gl.convert_layout(new_p.to(DTYPE), P_LAYOUT)
            adds = begins == False  # noqa: E712 (a tensor)
        if begins:
            _write_out(
                acc, done_m, done_l, o_buffer, o_desc, lse_ptr, done_batch, done_head, q_heads, done_q, q_len, kv_len, left, right,
                BOUND_LEFT, BOUND_RIGHT, BLOCK_D, ROW_LAYOUT, O_LAYOUT,
            )  # fmt: skip
            from_tile = first + 1
            to_tile = end
            begins = unit < 0
        else:
            mbarrier.arrive(q_empty.index((item % Q_STAGES) * GROUPS + GROUP))
            done_batch, done_head, done_q, done_m, done_l = batch, head, first_q, m, l
            item += 1
            unit, second = _next(unit, second, work)
            more = unit < units
            if more:
                batch, head, q_tile = _place(unit, second, work)
                first, end, first_full, end_full = _key_tiles(
                    q_tile, q_len, kv_len, left, right, BLOCK_M, BLOCK_N
                )
                first_q = q_tile * BLOCK_M + GROUP * ROWS
                mbarrier.wait(q_full.index((item % Q_STAGES) * GROUPS + GROUP), (item // Q_STAGES) & 1)
            m = gl.full([ROWS], float("-inf"), gl.float32, ROW_LAYOUT)
            l = gl.zeros([ROWS], gl.float32, ROW_LAYOUT)
            from_tile = first
            to_tile = first + 1
            begins = more
    acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
    acc = _add_values(p, acc, adds, v_ring, step, BLOCK_N, BLOCK_D, STAGES)
    acc, p = warpgroup_mma_wait(0, deps=[acc, p])
    _write_out(
        acc, done_m, done_l, o_buffer, o_desc, lse_ptr, done_batch, done_head, q_heads, done_q, q_len, kv_len, left, right,
        BOUND_LEFT, BOUND_RIGHT, BLOCK_D, ROW_LAYOUT, O_LAYOUT,
    )  # fmt: skip
    tma.store_wait(0)


@gluon.jit
def _ring(SLOTS: gl.constexpr, READERS: gl.constexpr, desc):
    """Buffers for tiles of a descriptor, with a barrier each for "loaded" and for "read by all readers"."""
    shape: gl.constexpr = desc.block_type.shape
    buffers = gl.allocate_shared_memory(
        desc.dtype, [SLOTS, shape[0], shape[1], shape[2], shape[3]], desc.layout
    )
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=READERS)
    return buffers, full, empty


@gluon.jit(do_not_specialize=SIZES)
def _attn_fwd_hopper(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, scale_log2, group_size, q_len, kv_len, left, right,
    pairs, units, q_tiles, per_head, per_head_multiplier, per_head_shift, q_heads, q_heads_multiplier, q_heads_shift, trace, max_steps,
    BOUND_LEFT: gl.constexpr, BOUND_RIGHT: gl.constexpr, RAGGED: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_D: gl.constexpr,
    GROUPS: gl.constexpr, STAGES: gl.constexpr, Q_STAGES: gl.constexpr, COMPUTE_REGISTERS: gl.constexpr, LOAD_REGISTERS: gl.constexpr,
    TRACE: gl.constexpr,
):  # fmt: skip
    """A persistent program; see the head of this file. lse is (batch, q_heads, q_len), contiguous."""
    o_shape: gl.constexpr = o_desc.block_type.shape
    o_buffers = gl.allocate_shared_memory(
        o_desc.dtype, [GROUPS, o_shape[0], o_shape[1], o_shape[2], o_shape[3]], o_desc.layout
    )
    q_ring = _ring(Q_STAGES * GROUPS, 1, q_desc)
    k_ring = _ring(STAGES, GROUPS, k_desc)
    v_ring = _ring(STAGES, GROUPS, v_desc)
    fence_async_shared()
    descs = (q_desc, k_desc, v_desc, o_desc)
    rings = (q_ring, k_ring, v_ring)
    problem = (group_size, q_len, kv_len, left, right)
    work = (
        pairs,
        units,
        q_tiles,
        per_head,
        (per_head_multiplier, per_head_shift),
        q_heads,
        (q_heads_multiplier, q_heads_shift),
    )
    if GROUPS == 2:
        gl.warp_specialize([
            (_attend, (0, descs, rings, o_buffers, lse_ptr, problem, work, scale_log2, trace, max_steps,
                       BOUND_LEFT, BOUND_RIGHT, RAGGED, BLOCK_N, BLOCK_D, GROUPS, STAGES, Q_STAGES, TRACE)),
            (_attend, (1, descs, rings, o_buffers, lse_ptr, problem, work, scale_log2, trace, max_steps,
                       BOUND_LEFT, BOUND_RIGHT, RAGGED, BLOCK_N, BLOCK_D, GROUPS, STAGES, Q_STAGES, TRACE)),
            (_load_tiles, (descs, rings, problem, work, BLOCK_N, GROUPS, STAGES, Q_STAGES)),
        ], [4, 1], [COMPUTE_REGISTERS, LOAD_REGISTERS])  # fmt: skip
    else:
        gl.warp_specialize([
            (_attend, (0, descs, rings, o_buffers, lse_ptr, problem, work, scale_log2, trace, max_steps,
                       BOUND_LEFT, BOUND_RIGHT, RAGGED, BLOCK_N, BLOCK_D, GROUPS, STAGES, Q_STAGES, TRACE)),
            (_attend, (1, descs, rings, o_buffers, lse_ptr, problem, work, scale_log2, trace, max_steps,
                       BOUND_LEFT, BOUND_RIGHT, RAGGED, BLOCK_N, BLOCK_D, GROUPS, STAGES, Q_STAGES, TRACE)),
            (_attend, (2, descs, rings, o_buffers, lse_ptr, problem, work, scale_log2, trace, max_steps,
                       BOUND_LEFT, BOUND_RIGHT, RAGGED, BLOCK_N, BLOCK_D, GROUPS, STAGES, Q_STAGES, TRACE)),
            (_load_tiles, (descs, rings, problem, work, BLOCK_N, GROUPS, STAGES, Q_STAGES)),
        ], [4, 4, 1], [COMPUTE_REGISTERS, COMPUTE_REGISTERS, LOAD_REGISTERS])  # fmt: skip


def divisor(number: int) -> tuple[int, int]:
    """(multiplier, shift) with which `_divide` divides by `number` (1 to 2^31): the quotient is the high word of a product, shifted.

    Granlund and Montgomery 1994, "Division by Invariant Integers using Multiplication". The multiplier is rounded up, and is
    given as a signed 32-bit number, as Triton would take a larger one for 64 bits.
    """
    if number == 1:
        return 0, 0
    shift = (number - 1).bit_length() - 1
    multiplier = -(-(1 << 32 + shift) // number)
    return (multiplier if multiplier < 1 << 31 else multiplier - (1 << 32)), shift


def work_units(batch: int, q_heads: int, q_tiles: int, bound_right: bool) -> dict[str, int]:
    """What the programs share out among themselves, unit `program + turn * programs` to each, as arguments of the kernel.

    Where a right bound makes later query tiles longer, the units up to `pairs` are two query tiles of one head, as far from
    the ends as each other, so that all are the same work; where their number is odd, the middle tiles follow. Else a unit
    is one query tile.
    """
    heads = batch * q_heads
    in_pairs = bound_right and q_tiles > 1
    per_head = q_tiles // 2 if in_pairs else q_tiles
    pairs = heads * per_head if in_pairs else 0
    work = {
        "pairs": pairs,
        "units": pairs + heads * (q_tiles % 2) if in_pairs else heads * q_tiles,
        "q_tiles": q_tiles,
    }
    for name, number in (("per_head", per_head), ("q_heads", q_heads)):
        multiplier, shift = divisor(number)
        work |= {name: number, f"{name}_multiplier": multiplier, f"{name}_shift": shift}
    return work


def can_run_hopper(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """True on compute capability 9.0, for 16-bit inputs of head_dim 40 to 128, a multiple of 8, that descriptors can address, in a known Triton."""
    if BACKEND != "cuda" or torch.cuda.get_device_capability() != (9, 0) or not gluon_is_known():
        return False
    head_dim = query.shape[3]
    rows_fit = (
        32 < head_dim <= 128 and head_dim * query.element_size() % 16 == 0
    )  # the rows of O too, which is made here
    return rows_fit and query.dtype in GLUON_DTYPES and can_use_tma(TileConfig(64, 64), query, key, value)


def chosen_config(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, left: int, right: int
) -> TileConfig | None:
    """The tiles with which this kernel is to run here, None where forward.py is to: what cannot run, or is not in the tuned table.

    So is what does not keep three quarters of the SMs busy: of 18 such shapes measured on an H200 (batch 1, 8 or 16 heads, 256 to 1024
    keys), forward.py with its smaller tiles was faster in 14, by 6 to 75 %, and slower in three, full at head_dim 128, by 8 to 16 %.
    """
    batch, q_heads, q_len, head_dim = query.shape
    kv_len = key.shape[2]
    config = hopper_config(head_dim, query.dtype, min(left, right) < q_len + kv_len, kv_len)
    if config is None or not can_run_hopper(query, key, value):
        return None
    units = work_units(batch, q_heads, triton.cdiv(q_len, config.block_m), right < q_len + kv_len)["units"]
    return config if 4 * units >= 3 * sm_count() else None


def _descriptor(tensor: torch.Tensor, rows: int, block_d: int) -> TensorDescriptor:
    block = [1, 1, rows, block_d]
    layout = gl.NVMMASharedLayout.get_default_for(block, GLUON_DTYPES[tensor.dtype])
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block, layout)


def launch_arguments(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, *,
    left: int, right: int, scale: float, config: TileConfig, recorder: Recorder | None = None,
) -> tuple[list, dict]:  # fmt: skip
    """Arguments of `_attn_fwd_hopper`: by position, and by keyword."""
    batch, q_heads, q_len, head_dim = query.shape
    groups = config.block_m // ROWS.value
    block_d = max(triton.next_power_of_2(head_dim), 64)
    tensors = zip(
        (query, key, value, out), (ROWS.value, config.block_n, config.block_n, ROWS.value), strict=True
    )
    compute, load = REGISTERS[groups]
    arguments = band_arguments(query, key, left, right, scale)
    arguments |= work_units(batch, q_heads, triton.cdiv(q_len, config.block_m), arguments["BOUND_RIGHT"])
    arguments |= {
        "RAGGED": key.shape[2] % config.block_n != 0, "BLOCK_N": config.block_n, "BLOCK_D": block_d,
        "GROUPS": groups, "STAGES": config.num_stages, "Q_STAGES": 2, "COMPUTE_REGISTERS": compute, "LOAD_REGISTERS": load, "num_warps": 4,
        "trace": recorder and recorder.buffers, "max_steps": recorder.max_steps if recorder else 0, "TRACE": recorder is not None,
    }  # fmt: skip
    return [_descriptor(tensor, rows, block_d) for tensor, rows in tensors] + [lse], arguments


def flash_forward_hopper(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *,
    left: int, right: int, scale: float, config: TileConfig, recorder: Recorder | None = None,
) -> tuple[torch.Tensor, torch.Tensor, LaunchInfo]:  # fmt: skip
    """Launch `_attn_fwd_hopper`; arguments and results as of `flash_forward`, for what `can_run_hopper` accepts.

    `config.block_m` is 128 or 192 (64 rows for each warpgroup that computes), `config.num_warps` counts the loading warp's
    warpgroup too: 12 or 16. A `recorder` makes the kernel write down its steps.
    """
    out = torch.empty_like(query)
    lse = torch.empty(query.shape[:3], dtype=torch.float32, device=query.device)
    tensors, arguments = launch_arguments(
        query, key, value, out, lse, left=left, right=right, scale=scale, config=config, recorder=recorder
    )
    with on_device(query, config):
        compiled = _attn_fwd_hopper[(min(sm_count(), arguments["units"]),)](*tensors, **arguments)
    return out, lse, launch_info(config, compiled)


def traced_launch(
    problem: AttentionProblem, config: TileConfig
) -> tuple[Recorder, LaunchInfo, torch.Tensor, torch.Tensor]:
    """Run the kernel on the problem's own inputs with TRACE on. Returns what it wrote down, how it was launched, O and lse.

    Raises InvalidProblem for what it does not take.
    """
    tensors = make_inputs(problem, DEVICE)
    if not can_run_hopper(*tensors):
        raise InvalidProblem(
            "head_dim",
            problem.head_dim,
            "forward_hopper.py takes 16-bit types, a multiple of 8 from 40 to 128, and a Hopper GPU",
        )
    left, right = tiles.band(problem)
    rows = TileRows("", "q_tile", config.block_m, problem.q_len)
    programs = problem.batch * problem.q_heads * triton.cdiv(problem.q_len, config.block_m)
    max_steps = triton.cdiv(problem.kv_len, config.block_n)
    recorder = make_recorder(
        "_attn_fwd_hopper", REQUESTS, ROW_FIELDS, rows, (), programs, max_steps, problem.head_dim
    )
    out, lse, launch = flash_forward_hopper(
        *tensors, left=left, right=right, scale=problem.scale, config=config, recorder=recorder
    )
    return recorder, launch, out, lse


def run_traced(problem: AttentionProblem) -> Trace:
    """The trace of the kernel on the problem, whose tiles are 128 x 128. A query tile that sees no key has one step, wholly masked."""
    if (problem.block_m, problem.block_n) != (128, 128):
        name = "block_n" if problem.block_m == 128 else "block_m"
        raise InvalidProblem(
            name, getattr(problem, name), "forward_hopper.py is traced with 128 x 128 tiles", "Choose those."
        )
    recorder, launch, out, lse = traced_launch(problem, TileConfig(128, 128, 12, 2))
    return assemble(problem, "flash2", [(recorder, launch)], output=out, lse=lse)


def requested_bytes(problem: AttentionProblem, config: TileConfig) -> tuple[int, int]:
    """(read, written): bytes that the kernel asks for with these tiles, counted by itself."""
    recorder, *_ = traced_launch(problem, config)
    counted = recorder.buffers.requested.sum(dim=0, dtype=torch.int64).tolist()
    by_direction = {
        direction: sum(n for n, request in zip(counted, REQUESTS, strict=False) if request[1] == direction)
        for direction in ("read", "write")
    }
    return by_direction["read"], by_direction["write"]
