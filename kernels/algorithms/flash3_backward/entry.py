"""What is known of the backward sweep for Hopper GPUs."""

from kernels.algorithms.chip import FLOAT32_BYTES, query_tile, row_bytes, row_state
from kernels.algorithms.flash3_backward.lanes import BLOCK_M, BLOCK_N, LABEL, NEEDS, SWEEP_LANES, own_tiles
from kernels.device.gpus import SHARED
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visiting_tiles
from kernels.trace.algorithm import (
    Algorithm,
    BytesOf,
    ChipPart,
    Kernel,
    Phase,
    RecordedSum,
    SourcePart,
    SourceRef,
)
from kernels.trace.timed import FLASH_ATTENTION

MODULE = "kernels.algorithms.flash3_backward."
STAGES = 2
"""Slots for Q, for dO and for dS."""


def _columns(problem: AttentionProblem) -> int:
    """Columns of a tile: head_dim, padded to the power of two that the matrix instruction gets."""
    return max(64, 1 << (problem.head_dim - 1).bit_length())


def _padded_sum_row_bytes(problem: AttentionProblem) -> int:
    """Bytes of a row of the float32 sum of dQ, which has the columns of a tile."""
    return _columns(problem) * FLOAT32_BYTES


def _padded_rows(problem: AttentionProblem) -> int:
    """Rows of lse, D and the sum of dQ in all heads: those of whole query tiles."""
    return problem.heads * -(-problem.q_len // BLOCK_M) * BLOCK_M


def prepare_bytes(problem: AttentionProblem) -> int:
    """O, dO and lse read; lse, D and zeros for the float32 sum of dQ written, for whole query tiles."""
    read = problem.heads * problem.q_len * (2 * row_bytes(problem) + FLOAT32_BYTES)
    return read + _padded_rows(problem) * (2 * FLOAT32_BYTES + _padded_sum_row_bytes(problem))


def sweep_bytes(problem: AttentionProblem) -> int:
    """K, V, dK and dV once; Q, dO, lse, D and the part of dQ once per key tile that the query tile sees.

    K and V are not loaded by a program whose keys nobody sees.
    """
    row, total = row_bytes(problem), 0
    rows_of_tile = BLOCK_M * (2 * FLOAT32_BYTES + _padded_sum_row_bytes(problem))
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
    written = problem.heads * problem.q_len * row_bytes(problem)
    return written + _padded_rows(problem) * _padded_sum_row_bytes(problem)


def the_scale(problem: AttentionProblem) -> float:
    """The factor that the recorded sum of dK lacks: the kernel multiplies by it at the end."""
    return problem.scale


def _slots(name: str, rows: int, slots: int = 1, holds: str = "") -> ChipPart:
    """Places for tiles of the inputs in shared memory."""
    bytes_of: BytesOf = lambda problem: slots * rows * _columns(problem) * problem.itemsize  # noqa: E731
    return ChipPart(name, bytes_of, (holds or name,), SHARED)


def _numbers(name: str) -> ChipPart:
    """Places for a number per row of a query tile, which comes with the tile."""
    return ChipPart(name, lambda problem: STAGES * BLOCK_M * FLOAT32_BYTES, (name,), SHARED)


def _sum(name: str, rows: int) -> ChipPart:
    """A float32 sum in registers."""
    return ChipPart(name, lambda problem: rows * _columns(problem) * FLOAT32_BYTES, (name,))


def _kept_bytes(problem: AttentionProblem) -> int:
    """K and V once more, in registers, with head_dim up to 64."""
    return 2 * BLOCK_N * 64 * problem.itemsize if _columns(problem) == 64 else 0


def _scores(*holds: str) -> ChipPart:
    """A tile of keys and queries in float32."""
    return ChipPart(", ".join(holds), lambda problem: BLOCK_M * BLOCK_N * FLOAT32_BYTES, holds)


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
    parts=(query_tile("O"), query_tile("dO"), row_state("lse", "D")),
    requested_bytes=prepare_bytes,
    row_flops=2,
    cells="",
)

SWEEP = Kernel(
    name="_attn_bwd_hopper",
    source=SourceRef(
        MODULE + "kernel",
        "_attn_bwd_hopper",
        parts=(
            SourcePart(MODULE + "loader", "load_tiles", ("load K, V",)),
            SourcePart(MODULE + "loader", "load_tiles", ("load Q, lse", "load dO, D")),
            SourcePart(MODULE + "query_tile", "issue_scores", ("QK^T",)),
            SourcePart(MODULE + "query_tile", "scores_and_dp", ("dP",)),
            SourcePart(MODULE + "query_tile", "probabilities"),
            SourcePart(MODULE + "query_tile", "apply_mask"),
            SourcePart(MODULE + "query_tile", "visit_query_tile", ("QK^T", "dV", "dS", "dK")),
            SourcePart(MODULE + "d_query", "issue_dq"),
            SourcePart(MODULE + "d_query", "add_dq"),
            SourcePart(MODULE + "accumulate", "accumulate", ("store dK, dV",)),
        ),
    ),
    before=(Phase("load K, V", loads=("K", "V"), makes=("dK", "dV")),),
    step=(
        Phase("load Q, lse", loads=("Q", "lse")),
        Phase("load dO, D", loads=("dO", "D")),
        Phase("QK^T", needs=("Q", "K"), makes=("S",), shows="scores", sentence_key="scores"),
        Phase("dP", needs=("V", "dO"), makes=("dP",), sentence_key="d weights"),
        Phase("P from lse", needs=("S", "lse"), makes=("P",), shows="share", sentence_key="weights from lse"),
        Phase("mask", needs=("P",), makes=("P",), only_masked=True, sentence_key="mask weights"),
        Phase("dV", needs=("P", "dO", "dV"), makes=("dV",), sentence_key="gradient"),
        Phase("dS", needs=("P", "dP", "D"), makes=("dS",), sentence_key="d scores"),
        Phase("dK", needs=("dS", "Q", "dK"), makes=("dK",), sentence_key="unscaled gradient"),
        Phase("dQ", needs=("dS", "K"), makes=("dQ",), sentence_key="part of dQ"),
        Phase("add dQ", needs=("dQ",), stores=("dQ",), sentence_key="add to dQ"),
    ),
    after=(Phase("store dK, dV", needs=("dK", "dV"), stores=("dK", "dV")),),
    parts=(
        _slots("K", BLOCK_N),
        _slots("V", BLOCK_N),
        _slots("Q", BLOCK_M, STAGES),
        _slots("dO", BLOCK_M, STAGES),
        _numbers("lse"),
        _numbers("D"),
        ChipPart(
            "dS",
            lambda problem: STAGES * BLOCK_N * BLOCK_M * problem.itemsize,
            ("dS",),
            SHARED,
        ),
        ChipPart("K, V", _kept_bytes, ("K", "V")),
        _scores("S", "P"),
        _scores("dP"),
        _sum("dK", BLOCK_N),
        _sum("dV", BLOCK_N),
        _sum("dQ", BLOCK_M),
    ),
    requested_bytes=sweep_bytes,
    products=5,
    row_fields=("row_share",),
    sums=(
        RecordedSum("acc_dk", "kv_tile", "d_key", factor=the_scale),
        RecordedSum("acc_dv", "kv_tile", "d_value"),
    ),
    stays="kv_tile",
    each="for each query tile that sees it",
    series=("share", "shares", "dK", "dV"),
    bars="share",
)

FINISH = Kernel(
    name="_attn_bwd_hopper_finish",
    source=SourceRef(MODULE + "rows", "_attn_bwd_hopper_finish"),
    before=(
        Phase("load dQ", loads=("dQ",)),
        Phase("scale", needs=("dQ",), makes=("dQ",), sentence_key="scale dQ"),
        Phase("store dQ", needs=("dQ",), stores=("dQ",)),
    ),
    step=(),
    parts=(query_tile("dQ"),),
    requested_bytes=finish_bytes,
    row_flops=1,
    cells="",
)

ENTRY = Algorithm(
    name="flash3_backward",
    label=LABEL,
    idea="dK, dV and parts of dQ in one sweep, five products per tile; needs a Hopper GPU",
    direction="backward",
    kernels=(PREPARE, SWEEP, FINISH),
    runner=MODULE + "run",
    rank=4,
    top=("K", "V", "dK", "dV"),
    left=("Q", "dO"),
    right=("O", "D", "dQ"),
    each_kernel_anew=True,
    timed_as=FLASH_ATTENTION,
    recorded=("gpt2", "llama3", "ragged", "layer", "window", "decode"),
    samples="heads",
    needs=NEEDS,
    lanes=SWEEP_LANES,
    own_tiles=own_tiles,
)
