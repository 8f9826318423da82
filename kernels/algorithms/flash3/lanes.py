"""What the lanes of the Hopper kernel do in a turn."""

from dataclasses import replace

from kernels.trace.lanes import OTHER, PRODUCT, SOFTMAX, WAIT, Activity, LaneRole

WARPGROUP = LaneRole(
    "warpgroup {}",
    (
        *("start", "rescaled", "asks K", "has K", "asks V", "has V", "has S", "masked", "has O", "has P"),
        *("writes", "wrote", "asks Q", "has Q"),
    ),
    (
        Activity("QK^T", PRODUCT, "QK^T", "has K", "has S"),
        Activity("PV", PRODUCT, "PV", "has V", "has O", turns_back=1),
        Activity("rescale", OTHER, "rescale", "start", "rescaled", turns_back=1),
        Activity("wait for turn", WAIT, "QK^T", "rescaled", "asks K"),
        Activity("wait for Q", WAIT, "load Q", "asks Q", "has Q"),
        Activity("wait for K", WAIT, "load K", "asks K", "has K"),
        Activity("wait for V", WAIT, "load V", "asks V", "has V", turns_back=1),
        Activity("wait for QK^T", WAIT, "QK^T", "has V", "has S"),
        Activity("mask", OTHER, "mask", "has S", "masked"),
        Activity("wait for PV", WAIT, "PV", "masked", "has O", turns_back=1),
        Activity("softmax", SOFTMAX, "exponentials", "has O", "has P"),
        Activity("write O", OTHER, "store O, lse", "writes", "wrote", turns_back=1),
    ),
)
"""In a turn a warpgroup issues Q K^T of a key tile, then P V of the key tile before it."""

WIDE_WARPGROUP = replace(
    WARPGROUP, activities=tuple(each for each in WARPGROUP.activities if each.name != "wait for turn")
)
"""With head_dim over 128 the warpgroups do not take turns (turns.py)."""

LOADS = LaneRole(
    "loads",
    (
        *("asks K", "loads K", "asks V", "loads V"),
        *("asks Q 1", "loads Q 1", "asks Q 2", "loads Q 2", "asks Q 3", "loads Q 3"),
    ),
    (
        Activity("place for K", WAIT, "load K", "asks K", "loads K"),
        Activity("place for V", WAIT, "load V", "asks V", "loads V"),
        Activity("place for Q", WAIT, "load Q", "asks Q 1", "loads Q 1"),
        Activity("place for Q", WAIT, "load Q", "asks Q 2", "loads Q 2"),
        Activity("place for Q", WAIT, "load Q", "asks Q 3", "loads Q 3"),
    ),
)
"""The warp that loads waits until the place of a tile in shared memory has been read."""
