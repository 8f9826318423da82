"""What the lanes of the two plain backward kernels do in a turn.

All warps of a program do the same: it has one lane. The kernels run with one stage, so a tile is waited for
where it is loaded, and a product where it is issued. Without TMA the warps go on after a load; then the time
of a product includes the wait for its tile.
"""

from kernels.trace.lanes import OTHER, PRODUCT, SOFTMAX, WAIT, Activity, LaneKernel, LaneRole

KEY_PROGRAM = LaneRole(
    "dK, dV",
    ("start", "has Q", "has S", "has P", "has dO", "has dV", "has dP", "has dS", "has dK", "wrote"),
    (
        Activity("wait for Q", WAIT, "load Q", "start", "has Q"),
        Activity("S^T", PRODUCT, "QK^T", "has Q", "has S"),
        Activity("P^T", SOFTMAX, "P from lse", "has S", "has P"),
        Activity("wait for dO", WAIT, "load dO", "has P", "has dO"),
        Activity("dV", PRODUCT, "dV", "has dO", "has dV"),
        Activity("dP^T", PRODUCT, "dP", "has dV", "has dP"),
        Activity("dS^T", OTHER, "dS", "has dP", "has dS"),
        Activity("dK", PRODUCT, "dK", "has dS", "has dK"),
        Activity("write dK, dV", OTHER, "store dK, dV", "has dK", "wrote"),
    ),
    kernel="_attn_bwd_dk_dv",
)
"""A program keeps a key tile; a turn is about a query tile of one of its query heads."""

QUERY_PROGRAM = LaneRole(
    "dQ",
    ("start", "has K", "has S", "has P", "has V", "has dP", "has dS", "has dQ", "wrote"),
    (
        Activity("wait for K", WAIT, "load K", "start", "has K"),
        Activity("S", PRODUCT, "QK^T", "has K", "has S"),
        Activity("P", SOFTMAX, "P from lse", "has S", "has P"),
        Activity("wait for V", WAIT, "load V", "has P", "has V"),
        Activity("dP", PRODUCT, "dP", "has V", "has dP"),
        Activity("dS", OTHER, "dS", "has dP", "has dS"),
        Activity("dQ", PRODUCT, "dQ", "has dS", "has dQ"),
        Activity("write dQ", OTHER, "store dQ", "has dQ", "wrote"),
    ),
    kernel="_attn_bwd_dq",
)
"""A program keeps a query tile; a turn is about a key tile."""

PLAIN = LaneKernel(
    "backward_plain",
    "Plain backward kernels",
    "kernels.algorithms.backward.run",
    (KEY_PROGRAM, QUERY_PROGRAM),
    words="Two kernels, one after the other: the first computes dK and dV, the second dQ. The time is that "
    "of both; the short kernel before them, which computes D, is not in it. An SM's time is that from its "
    "first program to its last in each of the two, without the pause between them. On a GPU without TMA, and "
    "with tiles of fewer than 16 rows, the time of a product includes the wait for its tile.",
    as_played=True,
)
