"""What is known of the backward sweep for Hopper GPUs.

A warpgroup of its own computes dQ, or those that keep keys do it a turn later (see `shared.Fixed`). So the
order of their marks differs.
"""

from dataclasses import replace

from kernels.algorithms import chip
from kernels.algorithms.backward import entry as plain
from kernels.device.gpus import SHARED
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visiting_tiles
from kernels.trace.algorithm import ChipPart, Kernel, Phase, SourcePart, SourceRef
from kernels.trace.lanes import OTHER, PLACE, PRODUCT, SOFTMAX, WAIT, Activity, LaneKernel, LaneRole
from kernels.trace.needs import Needs

ALL_DS = "until every warpgroup has stored its part of dS"
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
        Activity("wait for all dS", WAIT, "dS", "has place", "has all dS", 1, about=ALL_DS),
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
        Activity("wait for all dS", WAIT, "dS", "start", "has all dS", about=ALL_DS),
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
        Activity("place for Q", WAIT, "load Q, lse", "asks Q", "loads Q", about=PLACE),
        Activity("place for dO", WAIT, "load dO, D", "asks dO", "loads dO", about=PLACE),
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


MODULE = "kernels.algorithms.flash3_backward."
STAGES = 2
"""Slots for Q, for dO and for dS."""


def _padded_sum_row_bytes(problem: AttentionProblem) -> int:
    """Bytes of a row of the float32 sum of dQ, which has the columns of a tile."""
    return chip.columns(problem) * chip.FLOAT32_BYTES


def _padded_rows(problem: AttentionProblem) -> int:
    """Rows of lse, D and the sum of dQ in all heads: those of whole query tiles."""
    return problem.heads * -(-problem.q_len // BLOCK_M) * BLOCK_M


def prepare_bytes(problem: AttentionProblem) -> int:
    """O, dO and lse read; lse, D and zeros for the float32 sum of dQ written, for whole query tiles."""
    read = problem.heads * problem.q_len * (2 * chip.row_bytes(problem) + chip.FLOAT32_BYTES)
    return read + _padded_rows(problem) * (2 * chip.FLOAT32_BYTES + _padded_sum_row_bytes(problem))


def sweep_bytes(problem: AttentionProblem) -> int:
    """K, V, dK and dV once; Q, dO, lse, D and the part of dQ once per key tile that the query tile sees.

    K and V are not loaded by a program whose keys nobody sees.
    """
    row, total = chip.row_bytes(problem), 0
    rows_of_tile = BLOCK_M * (2 * chip.FLOAT32_BYTES + _padded_sum_row_bytes(problem))
    for kv_tile in range(problem.kv_tiles):
        tiles = visiting_tiles(problem, kv_tile)
        visits = max(tiles.end - tiles.first, 0)
        queries = min(tiles.end * BLOCK_M, problem.q_len) - tiles.first * BLOCK_M if visits else 0
        keys = min(BLOCK_N, problem.kv_len - kv_tile * BLOCK_N)
        total += problem.key_heads * keys * row * (4 if visits else 2)
        total += problem.heads * (queries * 2 * row + visits * rows_of_tile)
    return total


def finish_bytes(problem: AttentionProblem) -> int:
    """The float32 sum of dQ read for whole query tiles, dQ written."""
    written = problem.heads * problem.q_len * chip.row_bytes(problem)
    return written + _padded_rows(problem) * _padded_sum_row_bytes(problem)


def _numbers(name: str) -> ChipPart:
    """Places for a number per row of a query tile, which comes with the tile."""
    return ChipPart(name, lambda problem: STAGES * BLOCK_M * chip.FLOAT32_BYTES, (name,), SHARED)


def low_columns(bounds_left: bool, bounds_right: bool) -> int:
    """Columns of K that stay in registers with head_dim over 64: as many as are not spilled.

    32 made causal calls 1.4 and 2.6 % faster, 16 full ones 1.4 and 2.1 % (H200; 4,096 and 16,384 keys).
    """
    return 0 if bounds_left else 32 if bounds_right else 16


def _kept_bytes(problem: AttentionProblem) -> int:
    """K and V once more, in registers, with head_dim up to 64; or a few columns of K."""
    band = problem.band
    columns = 2 * 64 if chip.columns(problem) == 64 else low_columns(band.bounds_left, band.bounds_right)
    return BLOCK_N * columns * problem.itemsize


PREPARE = Kernel(
    name="_attn_bwd_hopper_prepare",
    source=SourceRef(MODULE + "rows", "_attn_bwd_hopper_prepare"),
    before=(
        Phase("load O, dO, lse", loads=("O", "dO", "lse")),
        Phase("D", needs=("O", "dO"), makes=("D",), sentence_key="row sums of O dO"),
        Phase("lse in base 2", needs=("lse",), makes=("lse",), sentence_key="base two"),
        Phase("store lse, D", needs=("lse", "D"), stores=("lse", "D")),
        Phase("dQ = 0", makes=("dQ",), stores=("dQ",)),
    ),
    step=(),
    parts=(chip.query_tile("O"), chip.query_tile("dO"), chip.row_state("lse", "D")),
    requested_bytes=prepare_bytes,
    row_flops=2,
    cells="",
)

SWEEP = replace(
    plain.DK_DV,
    name="_attn_bwd_hopper",
    source=SourceRef(
        MODULE + "kernel",
        "_attn_bwd_hopper",
        parts=(
            SourcePart(MODULE + "loader", "load_tiles", ("load K, V",)),
            SourcePart(MODULE + "loader", "load_tiles", ("load Q, lse", "load dO, D")),
            SourcePart(MODULE + "query_tile", "scores_and_dp", ("QK^T", "dP")),
            SourcePart(MODULE + "query_tile", "probabilities"),
            SourcePart(MODULE + "query_tile", "apply_mask"),
            SourcePart(MODULE + "query_tile", "visit_query_tile", ("QK^T", "dV", "dS", "dK")),
            SourcePart(MODULE + "d_query", "issue_dq"),
            SourcePart(MODULE + "d_query", "add_dq"),
            SourcePart(MODULE + "accumulate", "accumulate", ("store dK, dV",)),
        ),
    ),
    step=(
        Phase("load Q, lse", loads=("Q", "lse")),
        Phase("load dO, D", loads=("dO", "D")),
        *(plain.QK, plain.DP, plain.P, plain.MASK_P),
        *(plain.ADD_DV, plain.DS, plain.UNSCALED_DK),
        Phase("dQ", needs=("dS", "K"), makes=("dQ",), sentence_key="part of dQ"),
        Phase("add dQ", needs=("dQ",), stores=("dQ",), sentence_key="add to dQ"),
    ),
    parts=(
        *(chip.slots(name, lambda problem: BLOCK_N) for name in ("K", "V")),
        *(chip.slots(name, lambda problem: STAGES * BLOCK_M) for name in ("Q", "dO")),
        _numbers("lse"),
        _numbers("D"),
        ChipPart("dS", lambda problem: STAGES * BLOCK_N * BLOCK_M * problem.itemsize, ("dS",), SHARED),
        ChipPart("K, V", _kept_bytes, ("K", "V")),
        chip.scores("S, P", "S", "P"),
        chip.scores("dP"),
        *(chip.padded_sum(name, lambda problem: BLOCK_N) for name in ("dK", "dV")),
        chip.padded_sum("dQ", lambda problem: BLOCK_M),
    ),
    requested_bytes=sweep_bytes,
    products=5,
    figure=None,
)

FINISH = Kernel(
    name="_attn_bwd_hopper_finish",
    source=SourceRef(MODULE + "rows", "_attn_bwd_hopper_finish"),
    before=(
        Phase("load dQ", loads=("dQ",)),
        Phase("scale", needs=("dQ",), makes=("dQ",), sentence_key="scale dQ"),
        plain.STORE_DQ,
    ),
    step=(),
    parts=(chip.query_tile("dQ"),),
    requested_bytes=finish_bytes,
    row_flops=1,
    cells="",
)

ENTRY = replace(
    plain.ENTRY,
    name="flash3_backward",
    label=LABEL,
    idea="dK, dV and parts of dQ in one sweep, five products per tile; needs a Hopper GPU",
    kernels=(PREPARE, SWEEP, FINISH),
    runner=MODULE + "run",
    step_cost=1.0,
    recorded=("gpt2", "llama3", "ragged", "layer", "window", "decode"),
    needs=NEEDS,
    lanes=SWEEP_LANES,
    own_tiles=own_tiles,
    takes_patterns=False,
)
