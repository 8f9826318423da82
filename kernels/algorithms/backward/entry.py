"""What is known of the backward pass as three kernels."""

from kernels.algorithms.backward.lanes import PLAIN
from kernels.algorithms.chip import (
    FLOAT32_BYTES,
    key_sum,
    key_tile,
    query_sum,
    query_tile,
    row_bytes,
    row_state,
    scores,
)
from kernels.algorithms.tile_figures import backward_figure
from kernels.problem import AttentionProblem
from kernels.problem.tiles import streamed_keys, streamed_queries
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef
from kernels.trace.timed import FLASH_ATTENTION

FOLDER = "kernels.algorithms.backward"
ROW_FIELDS = ("row_share",)


def the_scale(problem: AttentionProblem) -> float:
    """The factor that the recorded sums of dQ and dK lack: the kernels multiply by it at the end."""
    return problem.scale


def preprocess_bytes(problem: AttentionProblem) -> int:
    """O and dO read, D written. Dao 2023, algorithm 2."""
    return problem.heads * problem.q_len * (2 * row_bytes(problem) + FLOAT32_BYTES)


def dk_dv_bytes(problem: AttentionProblem) -> int:
    """K, V, dK and dV once; Q, dO, lse and D once per key tile that they see. Dao 2023, algorithm 2."""
    row = row_bytes(problem)
    once = problem.key_heads * problem.kv_len * 4 * row
    return once + problem.heads * streamed_queries(problem) * (2 * row + 2 * FLOAT32_BYTES)


def dq_bytes(problem: AttentionProblem) -> int:
    """Q, dO, lse, D and dQ once; K and V once per query tile that sees them.

    Dao 2023, algorithm 2, with dQ in a kernel of its own instead of atomic adds.
    """
    row = row_bytes(problem)
    per_head = problem.q_len * (3 * row + 2 * FLOAT32_BYTES) + streamed_keys(problem) * 2 * row
    return problem.heads * per_head


PREPROCESS = Kernel(
    name="_attn_bwd_preprocess",
    source=SourceRef(f"{FOLDER}.preprocess", "_attn_bwd_preprocess"),
    before=(
        Phase("load O, dO", loads=("O", "dO")),
        Phase("D", needs=("O", "dO"), makes=("D",), sentence_key="row sums of O dO"),
        Phase("store D", needs=("D",), stores=("D",)),
    ),
    step=(),
    parts=(query_tile("O"), query_tile("dO"), row_state("D")),
    requested_bytes=preprocess_bytes,
    row_flops=2,
    cells="",
)

DK_DV = Kernel(
    name="_attn_bwd_dk_dv",
    source=SourceRef(f"{FOLDER}.dk_dv", "_attn_bwd_dk_dv", inner="_attn_bwd_dk_dv_inner"),
    before=(Phase("load K, V", loads=("K", "V"), makes=("dK", "dV")),),
    step=(
        Phase("load Q", loads=("Q",)),
        Phase("QK^T", needs=("Q", "K"), makes=("S",), shows="scores", sentence_key="scores"),
        Phase(
            "P from lse",
            loads=("lse",),
            needs=("S",),
            makes=("P",),
            shows="share",
            sentence_key="weights from lse",
        ),
        Phase("mask", needs=("P",), makes=("P",), only_masked=True, sentence_key="mask weights"),
        Phase("load dO", loads=("dO",)),
        Phase("dV", needs=("P", "dO", "dV"), makes=("dV",), sentence_key="gradient"),
        Phase("dP", needs=("V", "dO"), makes=("dP",), sentence_key="d weights"),
        Phase("dS", loads=("D",), needs=("P", "dP"), makes=("dS",), sentence_key="d scores"),
        Phase("dK", needs=("dS", "Q", "dK"), makes=("dK",), sentence_key="unscaled gradient"),
    ),
    after=(Phase("store dK, dV", needs=("dK", "dV"), stores=("dK", "dV")),),
    parts=(
        key_tile("K"),
        key_tile("V"),
        query_tile("Q"),
        query_tile("dO"),
        scores("S, P", "S", "P"),
        scores("dS", "dP", "dS"),
        key_sum("dK"),
        key_sum("dV"),
        row_state("lse", "D"),
    ),
    requested_bytes=dk_dv_bytes,
    products=4,
    row_fields=ROW_FIELDS,
    sums=(
        RecordedSum("acc_dk", "kv_tile", "d_key", factor=the_scale),
        RecordedSum("acc_dv", "kv_tile", "d_value"),
    ),
    stays="kv_tile",
    each="for each query tile that sees it",
    series=("share", "shares", "dK", "dV"),
    bars="share",
    figure=backward_figure("load Q", "load K, V", "load K, V", "load dO", ("dV", "dK")),
)

DQ = Kernel(
    name="_attn_bwd_dq",
    source=SourceRef(f"{FOLDER}.dq", "_attn_bwd_dq", inner="_attn_bwd_dq_inner"),
    before=(Phase("load Q, dO, lse, D", loads=("Q", "dO", "lse", "D"), makes=("dQ",)),),
    step=(
        Phase("load K", loads=("K",)),
        Phase("QK^T", needs=("Q", "K"), makes=("S",), shows="scores", sentence_key="scores"),
        Phase("mask", needs=("S",), makes=("S",), only_masked=True, sentence_key="mask"),
        Phase("P from lse", needs=("S", "lse"), makes=("P",), shows="share", sentence_key="weights from lse"),
        Phase("load V", loads=("V",)),
        Phase("dP", needs=("dO", "V"), makes=("dP",), sentence_key="d weights"),
        Phase("dS", needs=("P", "dP", "D"), makes=("dS",), sentence_key="d scores"),
        Phase("dQ", needs=("dS", "K", "dQ"), makes=("dQ",), sentence_key="unscaled gradient"),
    ),
    after=(Phase("store dQ", needs=("dQ",), stores=("dQ",)),),
    parts=(
        query_tile("Q"),
        query_tile("dO"),
        key_tile("K"),
        key_tile("V"),
        scores("S, P", "S", "P"),
        scores("dS", "dP", "dS"),
        query_sum("dQ"),
        row_state("lse", "D"),
    ),
    requested_bytes=dq_bytes,
    products=3,
    row_fields=ROW_FIELDS,
    sums=(RecordedSum("acc", "q_tile", "d_query", factor=the_scale),),
    longest_first=True,
    series=("share", "shares", "dQ"),
    bars="share",
    figure=backward_figure("load Q, dO, lse, D", "load K", "load V", "load Q, dO, lse, D", ("dQ",)),
)

ENTRY = Algorithm(
    name="backward",
    label="Backward",
    idea="D, then dK and dV key tile by key tile, then dQ query tile by query tile",
    direction="backward",
    kernels=(PREPROCESS, DK_DV, DQ),
    runner=f"{FOLDER}.run",
    rank=4,
    top=("K", "V", "dK", "dV"),
    left=("Q", "dO"),
    right=("O", "D", "dQ"),
    each_kernel_anew=True,
    step_cost=3.0,
    timed_as=FLASH_ATTENTION,
    recorded=("gpt2", "tiny", "llama3", "ragged", "layer", "window"),
    samples="heads",
    lanes=PLAIN,
)
