"""What lies in shared memory: tiles that are loaded, and dS on its way to dQ."""

from dataclasses import dataclass
from typing import NamedTuple

from kernels.algorithms.flash3_backward.entry import BLOCK_M, BLOCK_N, low_columns
from kernels.primitives.marks import mark

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # its name until Triton 3.6


@dataclass(frozen=True)
class Fixed:
    """What is compiled into the kernel, as one constexpr."""

    BOUND_LEFT: bool
    BOUND_RIGHT: bool
    RAGGED: bool
    """Whether the last key tile is not whole."""
    BLOCK_D: int
    """64 or 128: head_dim, padded."""
    TRACE: bool = False
    """Whether a step's values are recorded (primitives/recorder.py)."""
    TRACE_ACC: bool = False
    """Whether its dK and dV are too."""
    BLOCK_M: int = BLOCK_M
    ROWS: int = 64
    """Keys of a warpgroup: the height of its matrix instruction. Also rows and columns of a part of dQ."""
    BLOCK_N: int = BLOCK_N
    STAGES: int = 2
    """Slots for Q, for dO and for dS."""
    QUERY_REGISTERS: int = 64
    """Registers of a thread that computes dQ alone."""

    @property
    def DQ_WARPGROUP(self) -> bool:  # noqa: N802 (named like the constexprs beside it)
        """Whether a warpgroup of its own computes dQ."""
        return self.BLOCK_D == 64

    @property
    def LOW_COLUMNS(self) -> int:  # noqa: N802
        """Columns of K that those that keep keys have in registers, if they compute dQ too: see `entry`."""
        return 0 if self.DQ_WARPGROUP else low_columns(self.BOUND_LEFT, self.BOUND_RIGHT)

    @property
    def KEY_REGISTERS(self) -> int:  # noqa: N802
        """Registers of a thread that keeps keys."""
        return 208 if self.DQ_WARPGROUP else 240

    @property
    def LOAD_REGISTERS(self) -> int:  # noqa: N802
        """Registers of a thread that loads."""
        return 32 if self.DQ_WARPGROUP else 24

    @property
    def S_LAYOUT(self) -> gl.NVMMADistributedLayout:  # noqa: N802
        """Of S^T, dP^T and so on: (ROWS, BLOCK_M)."""
        return gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, self.BLOCK_M, 16])

    @property
    def ACC_LAYOUT(self) -> gl.NVMMADistributedLayout:  # noqa: N802
        """Of dK and dV: (ROWS, BLOCK_D)."""
        return gl.NVMMADistributedLayout([3, 0], [4, 1], instr_shape=[16, self.BLOCK_D, 16])

    @property
    def HAS_SPAN(self) -> tuple[bool, bool, bool]:  # noqa: N802
        """Whether the spans that `work.tiles_of_span` tells apart can have query tiles."""
        return self.BOUND_RIGHT, True, self.BOUND_LEFT or self.RAGGED

    @property
    def DS_READERS(self) -> int:  # noqa: N802
        """Warpgroups that read dS from shared memory."""
        return 1 if self.DQ_WARPGROUP else 2


class Stream(NamedTuple):
    """Slots for query tiles, each with a number per row, and two barriers: has arrived, has been read."""

    tiles: gl.shared_memory_descriptor
    numbers: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor


class Shared(NamedTuple):
    """K and V, which stay; Q with lse and dO with D, which are streamed; dS^T."""

    k: gl.shared_memory_descriptor
    v: gl.shared_memory_descriptor
    kv_full: gl.shared_memory_descriptor
    q: Stream
    do: Stream
    ds: gl.shared_memory_descriptor
    ds_full: gl.shared_memory_descriptor
    ds_empty: gl.shared_memory_descriptor


class Descriptors(NamedTuple):
    """Tensor descriptors: tiles of the inputs, and of dK and dV."""

    q: gl.tensor
    do: gl.tensor
    k: gl.tensor
    v: gl.tensor
    lse: gl.tensor
    delta: gl.tensor
    dk: gl.tensor
    dv: gl.tensor


@gluon.jit
def buffer_of(buffers, number):
    """Buffer `number`, at an address that the compiler does not know.

    Known addresses become matrix descriptors that live through the loop: up to 64 registers per tile. Most of
    these are spilled.
    """
    number = gl.to_tensor(number)
    number = gl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [number], gl.int32, is_pure=False, pack=1)
    return buffers.index(number)


@gluon.jit
def key_tiles(shared, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """K and V of a warpgroup, (ROWS, BLOCK_D) each."""
    k = buffer_of(shared.k, 0).reshape([FIXED.BLOCK_N, FIXED.BLOCK_D])
    v = buffer_of(shared.v, GROUP).reshape([FIXED.ROWS, FIXED.BLOCK_D])
    return k.slice(GROUP * FIXED.ROWS, FIXED.ROWS, 0), v


@gluon.jit
def make_barriers(SLOTS: gl.constexpr, ARRIVALS: gl.constexpr):
    """A barrier per slot."""
    barriers = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(barriers.index(slot), count=ARRIVALS)
    return barriers


@gluon.jit
def make_stream(desc, numbers_desc, FIXED: gl.constexpr):
    """A stream of tiles of the descriptor, each read by both warpgroups that hold keys."""
    shape: gl.constexpr = desc.block_type.shape
    tiles = gl.allocate_shared_memory(
        desc.dtype, [FIXED.STAGES, shape[0], shape[1], shape[2], shape[3]], desc.layout
    )
    numbers = gl.allocate_shared_memory(gl.float32, [FIXED.STAGES, FIXED.BLOCK_M], numbers_desc.layout)
    return Stream(tiles, numbers, make_barriers(FIXED.STAGES, 1), make_barriers(FIXED.STAGES, 2))


@gluon.jit
def make_shared(descs, FIXED: gl.constexpr):
    """All of it."""
    STAGES: gl.constexpr = FIXED.STAGES
    DTYPE: gl.constexpr = descs.q.dtype
    k_shape: gl.constexpr = descs.k.block_type.shape
    v_shape: gl.constexpr = descs.v.block_type.shape
    ds_shape: gl.constexpr = [FIXED.BLOCK_N, FIXED.BLOCK_M]
    DS_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for(ds_shape, DTYPE)
    k = gl.allocate_shared_memory(DTYPE, [1, k_shape[0], k_shape[1], k_shape[2], k_shape[3]], descs.k.layout)
    v = gl.allocate_shared_memory(
        DTYPE, [2, v_shape[0], v_shape[1], v_shape[2], v_shape[3]], descs.v.layout
    )  # a tile per warpgroup, which holds dV and dK at the end
    q = make_stream(descs.q, descs.lse, FIXED)
    do = make_stream(descs.do, descs.delta, FIXED)
    ds = gl.allocate_shared_memory(DTYPE, [STAGES, FIXED.BLOCK_N, FIXED.BLOCK_M], DS_LAYOUT)
    ds_full = make_barriers(STAGES, 2)
    ds_empty = make_barriers(STAGES, FIXED.DS_READERS)
    return Shared(k, v, make_barriers(2, 1), q, do, ds, ds_full, ds_empty)


@gluon.jit
def load_into(
    stream, desc, numbers_desc, item, head, q_tile, step, lane, ASKS: gl.constexpr, FIXED: gl.constexpr
):
    """Copy a query tile and its rows' numbers into the slot of this step, once both readers released it.

    The mark ASKS is set before the wait, and the one after it after the wait.
    """
    slot = step % FIXED.STAGES
    first_q = q_tile * FIXED.BLOCK_M
    full = stream.full.index(slot)
    mark(lane, step, ASKS)
    mbarrier.wait(stream.empty.index(slot), (step // FIXED.STAGES + 1) & 1)
    mark(lane, step, ASKS + 1)
    mbarrier.expect(full, desc.block_type.nbytes + numbers_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(desc, [item.batch, head, first_q, 0], full, stream.tiles.index(slot))
    row = (item.batch * item.q_heads + head) * item.padded_rows + first_q
    tma.async_copy_global_to_shared(numbers_desc, [row], full, stream.numbers.index(slot))


@gluon.jit
def wait_for(stream, step, exists, FIXED: gl.constexpr):
    """Wait until the tile of this step has arrived, if it exists."""
    slot = step % FIXED.STAGES
    mbarrier.wait(stream.full.index(slot), (step // FIXED.STAGES) & 1, pred=exists)


@gluon.jit
def tile_of(stream, step, FIXED: gl.constexpr):
    """The tile of this step, (BLOCK_M, BLOCK_D)."""
    return stream.tiles.index(step % FIXED.STAGES).reshape([FIXED.BLOCK_M, FIXED.BLOCK_D])


@gluon.jit
def release(stream, step, FIXED: gl.constexpr):
    """Say that this warpgroup has read the slot of this step."""
    mbarrier.arrive(stream.empty.index(step % FIXED.STAGES))
