"""Warpgroups take turns on the tensor cores, so that one multiplies while another is in its softmax.

Shah et al. 2024, section 3.1 (ping-pong). How long a turn lasts was measured (H200): with head_dim up to 64
until the products are done, 0.5 to 6 % faster than without turns; with 128 until the scores are there, with
16,384 keys 0.2 to 0.7 % faster than until both products are issued, and with 4,096 causal ones 0.3 % slower;
with 256 until they are issued, 0.5 % slower to 1.5 % faster than without turns (16 timings of six cells).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def make_turns(GROUPS: gl.constexpr):
    """A barrier per warpgroup: a phase of it ends when the warpgroup's turn begins."""
    turns = gl.allocate_shared_memory(gl.int64, [GROUPS, 1], mbarrier.MBarrierLayout())
    for group in gl.static_range(GROUPS):
        mbarrier.init(turns.index(group), count=1)
    return turns


@gluon.jit
def await_turn(turns, step, GROUP: gl.constexpr):
    """Wait until the warpgroup before this one has had its turn of this step. The first one begins."""
    LATER: gl.constexpr = 1 if GROUP == 0 else 0  # it waits for the last one's turn of the step before
    mbarrier.wait(turns.index(GROUP), (step + LATER) & 1)


@gluon.jit
def end_turn(turns, WHEN: gl.constexpr, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """It is the next warpgroup's turn, if turns end now: see `Fixed.TURN_ENDS`."""
    if FIXED.TURN_ENDS == WHEN:
        mbarrier.arrive(turns.index((GROUP + 1) % FIXED.GROUPS))
