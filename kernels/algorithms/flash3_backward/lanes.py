"""What the lanes of the backward sweep for Hopper do in a turn, which is about one query tile.

A warpgroup of its own computes dQ, or those that keep keys do it a turn later (see `shared.Fixed`). So the
order of the marks differs.
"""

from kernels.problem import AttentionProblem
from kernels.trace.lanes import OTHER, PRODUCT, SOFTMAX, WAIT, Activity, LaneKernel, LaneRole
from kernels.trace.needs import Needs

KEY_MARKS = (
    *("start", "has Q", "has dO", "has S", "has P", "has dP", "has place", "has all dS", "stored dS"),
    *("has dQ", "added dQ", "has dV", "has dK", "turns"),
)
PRODUCTS_AND_Q = (
    Activity("S^T", PRODUCT, "QK^T", "has Q", "has S"),
    Activity("dP^T", PRODUCT, "dP", "has dO", "has dP"),
    Activity("wait for Q", WAIT, "load Q, lse", "start", "has Q"),
)
WAIT_FOR_DK = Activity("wait for dK", WAIT, "dK", "has dV", "has dK")
KEYS = LaneRole(
    "warpgroup {}",
    KEY_MARKS,
    (
        *PRODUCTS_AND_Q,
        Activity("wait for S^T", WAIT, "QK^T", "turns", "has S"),
        Activity("wait for dO", WAIT, "load dO, D", "has S", "has dO"),
        Activity("exponentials", SOFTMAX, "P from lse", "has dO", "has P"),
        Activity("wait for dP^T", WAIT, "dP", "has P", "has dP"),
        Activity("dS", OTHER, "dS", "has dP", "has place"),
        Activity("dV", PRODUCT, "dV", "has dP", "has dV"),
        Activity("store dS", OTHER, "dS", "has place", "stored dS"),
        Activity("wait for dV", WAIT, "dV", "stored dS", "has dV"),
        Activity("dK", PRODUCT, "dK", "has place", "has dK"),
        WAIT_FOR_DK,
    ),
)
"""A warpgroup that keeps keys, if another computes dQ. S^T of a query tile is issued in the turn before."""

KEYS_AND_DQ = LaneRole(
    "warpgroup {}",
    KEY_MARKS,
    (
        *PRODUCTS_AND_Q,
        Activity("wait for dO", WAIT, "load dO, D", "has Q", "has dO"),
        Activity("wait for S^T", WAIT, "QK^T", "has dO", "has S"),
        Activity("wait for dP^T", WAIT, "dP", "has S", "has dP"),
        Activity("exponentials", SOFTMAX, "P from lse", "has dP", "has P"),
        Activity("dS", OTHER, "dS", "has P", "has place"),
        Activity("wait for all dS", WAIT, "dS", "has place", "has all dS", turns_back=1),
        Activity("store dS", OTHER, "dS", "has all dS", "stored dS"),
        Activity("dQ", PRODUCT, "dQ", "stored dS", "has dQ", turns_back=1),
        Activity("dV", PRODUCT, "dV", "stored dS", "has dV"),
        Activity("wait for dQ", WAIT, "dQ", "stored dS", "has dQ", turns_back=1),
        Activity("add dQ", OTHER, "add dQ", "has dQ", "added dQ", turns_back=1),
        Activity("wait for dV", WAIT, "dV", "added dQ", "has dV"),
        Activity("dK", PRODUCT, "dK", "stored dS", "has dK"),
        WAIT_FOR_DK,
    ),
)
"""A warpgroup that keeps keys, and computes a half of dQ of the query tile before."""

QUERIES = LaneRole(
    "warpgroup {}: dQ",
    ("start", "has all dS", "has dQ", "added dQ"),
    (
        Activity("wait for all dS", WAIT, "dS", "start", "has all dS"),
        Activity("dQ", PRODUCT, "dQ", "has all dS", "has dQ"),
        Activity("wait for dQ", WAIT, "dQ", "has all dS", "has dQ"),
        Activity("add dQ", OTHER, "add dQ", "has dQ", "added dQ"),
    ),
)
"""The warpgroup that computes dQ alone."""

LOADS = LaneRole(
    "loads",
    ("asks Q", "loads Q", "asks dO", "loads dO"),
    (
        Activity("place for Q", WAIT, "load Q, lse", "asks Q", "loads Q"),
        Activity("place for dO", WAIT, "load dO, D", "asks dO", "loads dO"),
    ),
)
"""The warp that loads waits until the place of a tile in shared memory has been read."""

LABEL = "Backward sweep (Hopper)"
BLOCK_M, BLOCK_N = 64, 128
NEEDS = Needs("a Hopper GPU", "9.0", ("float16", "bfloat16"), range(40, 129, 8))


def own_tiles(problem: AttentionProblem) -> tuple[int, int]:
    """(block_m, block_n) of every problem."""
    return BLOCK_M, BLOCK_N


SWEEP_LANES = LaneKernel(
    "backward_sweep",
    LABEL,
    "kernels.algorithms.flash3_backward.run",
    (KEYS, KEYS_AND_DQ, QUERIES, LOADS),
    words="The sweep alone: two short kernels, one before and one after it, are not in its time.",
    needs=NEEDS,
    own_tiles=own_tiles,
)
