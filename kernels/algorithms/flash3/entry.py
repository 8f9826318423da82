"""What is known of FlashAttention-3, the forward kernel for Hopper GPUs."""

from dataclasses import replace

from kernels.algorithms import chip
from kernels.algorithms.flash2.entry import FORWARD, ONLINE_SOFTMAX
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from kernels.trace.algorithm import Algorithm, ChipPart, Phase, SourcePart, SourceRef, TimedAs
from kernels.trace.lanes import OTHER, PLACE, PRODUCT, SOFTMAX, WAIT, Activity, LaneKernel, LaneRole
from kernels.trace.needs import Needs

MODULE = "kernels.algorithms.flash3."


def tiles_of(problem: AttentionProblem) -> tuple[int, int]:
    """(block_m, block_n): 64 rows for each of two warpgroups, and keys as shared memory allows."""
    return 128, 128 if problem.head_dim <= 128 else 64


def _is_wide(problem: AttentionProblem) -> bool:
    """Whether rows are so long that one query tile is there at a time, and O leaves by way of its place."""
    return chip.columns(problem) == 256


ON_CHIP = (
    chip.slots("Q", lambda problem: problem.block_m * (1 if _is_wide(problem) else 2)),
    chip.slots("K", lambda problem: 2 * problem.block_n),
    chip.slots("V", lambda problem: 2 * problem.block_n),
    chip.slots("O out", lambda problem: 0 if _is_wide(problem) else problem.block_m),
    ChipPart(
        "Q, copy",
        lambda problem: problem.block_m * 128 * problem.itemsize if chip.columns(problem) > 64 else 0,
        ("Q",),
    ),
    chip.scores("S"),
    ChipPart("P", lambda problem: problem.block_m * problem.block_n * problem.itemsize, ("P",)),
    chip.padded_sum("O", lambda problem: problem.block_m),
    chip.row_state("m", "l"),
)
"""S of one key tile and P of the tile before it are there together: a product is under way with each."""


def requested_bytes(problem: AttentionProblem) -> int:
    """Q, O and lse once, K and V once per query tile that sees them; one key tile if it sees none.

    Dao 2023, algorithm 1, without the tiles that the mask skips.
    """
    row, keys = chip.row_bytes(problem), 0
    for q_tile in range(problem.q_tiles):
        tiles = visited_tiles(problem, q_tile)
        first = min(tiles.first, problem.kv_tiles - 1)
        end = max(tiles.end, first + 1)
        keys += min(end * problem.block_n, problem.kv_len) - first * problem.block_n
    return problem.heads * (problem.q_len * (2 * row + chip.FLOAT32_BYTES) + keys * 2 * row)


TURN = "until the warpgroup before it has had its turn on the tensor cores"
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
        Activity("wait for turn", WAIT, "QK^T", "rescaled", "asks K", about=TURN),
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

LOADS = LaneRole(
    "loads",
    (
        *("asks K", "loads K", "asks V", "loads V"),
        *("asks Q 1", "loads Q 1", "asks Q 2", "loads Q 2", "asks Q 3", "loads Q 3"),
    ),
    (
        Activity("place for K", WAIT, "load K", "asks K", "loads K", about=PLACE),
        Activity("place for V", WAIT, "load V", "asks V", "loads V", about=PLACE),
        Activity("place for Q", WAIT, "load Q", "asks Q 1", "loads Q 1", about=PLACE),
        Activity("place for Q", WAIT, "load Q", "asks Q 2", "loads Q 2", about=PLACE),
        Activity("place for Q", WAIT, "load Q", "asks Q 3", "loads Q 3", about=PLACE),
    ),
)
"""The warp that loads waits until the place of a tile in shared memory has been read."""

SOURCE = SourceRef(
    MODULE + "kernel",
    "_attn_fwd_hopper",
    steps=((MODULE + "softmax", "softmax_step"), (MODULE + "softmax", "join_sums")),
    parts=(
        SourcePart(MODULE + "loader", "load_tiles", ("load Q",)),
        SourcePart(MODULE + "loader", "load_tiles", ("load K",)),
        SourcePart(MODULE + "products", "issue_scores"),
        SourcePart(MODULE + "products", "issue_both", ("QK^T",)),
        SourcePart(MODULE + "mask", "mask_scores"),
        SourcePart(MODULE + "attend", "attend", ("row max", "rescale")),
        SourcePart(MODULE + "products", "issue_both", ("rescale",)),
        SourcePart(MODULE + "loader", "load_tiles", ("load V",)),
        SourcePart(MODULE + "products", "issue_values"),
        SourcePart(MODULE + "output", "write_out"),
    ),
)
"""In the order in which one tile meets them. Its rescale and P V run beside Q K^T of the next tile."""


def _in_wide(part: SourcePart) -> SourcePart:
    of_attend = part.function == "attend"
    return replace(part, module=MODULE + "attend_wide", function="attend_wide") if of_attend else part


WIDE_SOURCE = replace(SOURCE, steps=(ONLINE_SOFTMAX,), parts=tuple(_in_wide(part) for part in SOURCE.parts))

KERNEL = replace(
    FORWARD,
    name="_attn_fwd_hopper",
    source=SOURCE,
    wide_source=WIDE_SOURCE,
    after=(
        Phase(
            "store O, lse",
            needs=("O", "m", "l"),
            makes=("O out",),
            stores=("O", "lse"),
            sentence_key="finish",
        ),
    ),
    parts=ON_CHIP,
    requested_bytes=requested_bytes,
    sums=(),
    longest_first=False,
    series=("m", "l", "alpha"),
    figure=None,
)

LABEL = "FlashAttention-3 (Hopper)"
NEEDS = Needs("a Hopper GPU", "9.0", ("float16", "bfloat16"), range(40, 257, 8))
LANES = LaneKernel("flash3", LABEL, MODULE + "run", (WARPGROUP, LOADS), needs=NEEDS, own_tiles=tiles_of)

ENTRY = Algorithm(
    name="flash3",
    label=LABEL,
    idea="loads, products and softmax of different tiles at the same time; needs a Hopper GPU",
    left=("Q", "O", "lse"),
    direction="forward",
    kernels=(KERNEL,),
    runner=MODULE + "run",
    rank=2,
    timed_as=TimedAs("flash3"),
    checked="FlashAttention-3 (Hopper), forward and backward",
    has_gradients=True,
    recorded=("gpt2", "llama3", "ragged", "layer", "window", "decode"),
    samples="heads",
    persistent=True,
    needs=NEEDS,
    own_tiles=tiles_of,
    lanes=LANES,
)
