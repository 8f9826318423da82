"""What the lanes of the backward sweep for Hopper do in a turn, which is about one query tile.

Where dQ is computed differs (see `shared.Fixed`): by a warpgroup of its own, a turn later, or at once. So
does the order of the marks.
"""

from kernels.trace.lanes import OTHER, PRODUCT, SOFTMAX, WAIT, Activity, LaneRole

KEY_MARKS = (
    *("start", "has Q", "has dO", "has S", "has P", "has dP", "has place", "has all dS", "stored dS"),
    *("has dQ", "added dQ", "has dV", "has dK", "turns"),
)
FIRST = (
    Activity("S^T", PRODUCT, "has Q", "has S"),
    Activity("dP^T", PRODUCT, "has dO", "has dP"),
    Activity("wait for Q", WAIT, "start", "has Q"),
    Activity("wait for dO", WAIT, "has Q", "has dO"),
    Activity("wait for S^T", WAIT, "has dO", "has S"),
    Activity("exponentials", SOFTMAX, "has S", "has P"),
    Activity("wait for dP^T", WAIT, "has P", "has dP"),
    Activity("dS", OTHER, "has dP", "has place"),
)
"""Up to dS^T in registers, and its place in shared memory."""
FIRST_AHEAD = (
    Activity("S^T", PRODUCT, "has Q", "has S"),
    Activity("dP^T", PRODUCT, "has dO", "has dP"),
    Activity("wait for Q", WAIT, "start", "has Q"),
    Activity("wait for S^T", WAIT, "turns", "has S"),
    Activity("wait for dO", WAIT, "has S", "has dO"),
    Activity("exponentials", SOFTMAX, "has dO", "has P"),
    *FIRST[-2:],
)
"""The same if S^T was issued in the turn before."""
LAST = (Activity("dK", PRODUCT, "stored dS", "has dK"), Activity("wait for dK", WAIT, "has dV", "has dK"))

ALONE = (
    Activity("dV", PRODUCT, "has dP", "has dV"),
    Activity("store dS", OTHER, "has place", "stored dS"),
    Activity("wait for dV", WAIT, "stored dS", "has dV"),
    *LAST,
)
KEYS_ALONE = LaneRole("warpgroup {}", KEY_MARKS, (*FIRST, *ALONE))
KEYS_AHEAD = LaneRole("warpgroup {}", KEY_MARKS, (*FIRST_AHEAD, *ALONE))
"""A warpgroup of its own computes dQ. In the second, S^T of the next query tile is issued in a turn."""

KEYS_BEHIND = LaneRole(
    "warpgroup {}",
    KEY_MARKS,
    (
        *FIRST,
        Activity("wait for all dS", WAIT, "has place", "has all dS", turns_back=1),
        Activity("dQ", PRODUCT, "has all dS", "has dQ", turns_back=1),
        Activity("dV", PRODUCT, "has all dS", "has dV"),
        Activity("store dS", OTHER, "has all dS", "stored dS"),
        Activity("wait for dQ", WAIT, "stored dS", "has dQ", turns_back=1),
        Activity("add dQ", OTHER, "has dQ", "added dQ", turns_back=1),
        Activity("wait for dV", WAIT, "added dQ", "has dV"),
        *LAST,
    ),
)
"""dQ of the query tile before is computed in a turn."""

KEYS_AT_ONCE = LaneRole(
    "warpgroup {}",
    KEY_MARKS,
    (
        *FIRST,
        Activity("dV", PRODUCT, "has dP", "has dQ"),
        Activity("store dS", OTHER, "has place", "stored dS"),
        Activity("wait for all dS", WAIT, "stored dS", "has all dS"),
        Activity("dQ", PRODUCT, "has all dS", "has dQ"),
        Activity("dK", PRODUCT, "has all dS", "has dK"),
        Activity("wait for dQ, dV", WAIT, "has all dS", "has dQ"),
        Activity("add dQ", OTHER, "has dQ", "added dQ"),
        Activity("wait for dK", WAIT, "added dQ", "has dK"),
    ),
)
"""dQ is computed in the turn of its dS."""

QUERIES = LaneRole(
    "warpgroup {}: dQ",
    ("start", "has all dS", "has dQ", "has place", "added dQ"),
    (
        Activity("wait for all dS", WAIT, "start", "has all dS"),
        Activity("dQ", PRODUCT, "has all dS", "has dQ"),
        Activity("wait for dQ", WAIT, "has all dS", "has dQ"),
        Activity("place for dQ", WAIT, "has dQ", "has place"),
        Activity("add dQ", OTHER, "has place", "added dQ"),
    ),
)
"""The warpgroup that computes dQ alone."""

LOADS = LaneRole(
    "loads",
    ("asks Q", "loads Q", "asks dO", "loads dO"),
    (
        Activity("place for Q", WAIT, "asks Q", "loads Q"),
        Activity("place for dO", WAIT, "asks dO", "loads dO"),
    ),
)
"""The warp that loads waits until the place of a tile in shared memory has been read."""
