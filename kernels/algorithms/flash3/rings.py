"""Rings of tile buffers in shared memory, between the warp that loads and the warpgroups that compute."""

from dataclasses import dataclass
from typing import NamedTuple

from kernels.primitives.marks import mark

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma


@dataclass(frozen=True)
class Fixed:
    """What is compiled into the kernel, as one constexpr."""

    BOUND_LEFT: bool
    BOUND_RIGHT: bool
    RAGGED: bool
    """Whether the last key tile is not whole."""
    BLOCK_N: int
    BLOCK_D: int
    GROUPS: int
    """Warpgroups that compute."""
    STAGES: int
    """Slots of the rings of K and V."""
    TRACE: bool
    """Whether a step's values are recorded (primitives/recorder.py)."""
    LANES: bool = False
    """Whether each warpgroup marks when it did what (primitives/marks.py)."""
    ROWS: int = 64
    """Query rows of a warpgroup: the height of its matrix instruction."""

    @property
    def WIDE(self) -> bool:  # noqa: N802 (named like the constexprs beside it)
        """Whether rows are so long that shared memory holds one query tile, in whose place O is written."""
        return self.BLOCK_D == 256

    @property
    def Q_STAGES(self) -> int:  # noqa: N802
        """Query tiles in the ring of Q, each of GROUPS slots."""
        return 1 if self.WIDE else 2

    @property
    def TURN_ENDS(self) -> str:  # noqa: N802
        """What ends a turn (turns.py): products are "issued", the "scores" are there, or all is "done"."""
        return {64: "done", 128: "scores", 256: "issued"}[self.BLOCK_D]

    @property
    def Q_IN_REGISTERS(self) -> bool:  # noqa: N802
        """Whether a warpgroup keeps Q in registers: its products then read less of shared memory.

        With head_dim 128 that was -0.5 to +4 % faster (H200, 5 cells). With less, three warpgroups have none
        to spare.
        """
        return self.BLOCK_D == 128

    @property
    def COMPUTE_REGISTERS(self) -> int:  # noqa: N802
        """Registers of a thread that computes."""
        return 240 if self.GROUPS == 2 else 160

    @property
    def LOAD_REGISTERS(self) -> int:  # noqa: N802
        """Registers of a thread that loads."""
        return 24 if self.GROUPS == 2 else 32

    @property
    def BLOCK_M(self) -> int:  # noqa: N802 (named like the constexprs beside it)
        return self.GROUPS * self.ROWS


class Ring(NamedTuple):
    """Buffers for tiles, each with two barriers: the tile has arrived, and all readers have read it."""

    buffers: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor


class Rings(NamedTuple):
    """The rings of Q, K and V, and the barriers of the warpgroups' turns."""

    q: Ring
    k: Ring
    v: Ring
    turns: gl.shared_memory_descriptor
    units: gl.shared_memory_descriptor
    """Slots for numbers of units: of each in the ring of Q, there once its Q is, and of the next."""


class Descriptors(NamedTuple):
    """Tensor descriptors of Q, K, V and O."""

    q: gl.tensor
    k: gl.tensor
    v: gl.tensor
    o: gl.tensor


class Beside(NamedTuple):
    """What the kernel is given beside descriptors and sizes."""

    lse: gl.tensor
    """(batch, q_heads, q_len), contiguous."""
    scale_log2: gl.tensor
    counter: gl.tensor
    """int32 (1,): units that were claimed."""
    trace: gl.tensor
    """Buffers for its steps or for its marks; None if it writes down neither."""
    max_steps: gl.tensor
    """Most steps of a query tile."""


@gluon.jit
def make_ring(SLOTS: gl.constexpr, READERS: gl.constexpr, desc):
    """A ring of SLOTS tiles of the descriptor, each read by READERS warpgroups."""
    shape: gl.constexpr = desc.block_type.shape
    buffers = gl.allocate_shared_memory(
        desc.dtype, [SLOTS, shape[0], shape[1], shape[2], shape[3]], desc.layout
    )
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(empty.index(slot), count=READERS)
    return Ring(buffers, full, empty)


@gluon.jit
def load_into(ring, desc, batch, head, row, turn, SLOTS: gl.constexpr, lane, marked, ASKS: gl.constexpr):
    """Copy the tile from `row` on into slot `turn % SLOTS`, once all readers have released the slot.

    The mark ASKS of the lane's turn `marked` is set before the wait, and the one after it after the wait.
    """
    slot = turn % SLOTS
    mark(lane, marked, ASKS)
    mbarrier.wait(ring.empty.index(slot), (turn // SLOTS + 1) & 1)
    mark(lane, marked, ASKS + 1)
    mbarrier.expect(ring.full.index(slot), desc.block_type.nbytes)
    tma.async_copy_global_to_shared(
        desc, [batch, head, row, 0], ring.full.index(slot), ring.buffers.index(slot)
    )


@gluon.jit
def wait_for(ring, turn, SLOTS: gl.constexpr):
    """The buffer of slot `turn % SLOTS`, once its tile has arrived."""
    slot = turn % SLOTS
    mbarrier.wait(ring.full.index(slot), (turn // SLOTS) & 1)
    return ring.buffers.index(slot)


@gluon.jit
def release(ring, turn, SLOTS: gl.constexpr):
    """Say that this warpgroup has read the slot. It is loaded again after all warpgroups have."""
    mbarrier.arrive(ring.empty.index(turn % SLOTS))
