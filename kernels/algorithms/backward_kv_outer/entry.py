"""What is known of the backward pass with the key tile outside."""

from kernels.algorithms.backward.entry import PREPROCESS
from kernels.algorithms.chip import (
    FLOAT32_BYTES,
    key_sum,
    key_tile,
    query_sum,
    query_tile,
    row_bytes,
    row_state,
    scores,
    sum_row_bytes,
)
from kernels.algorithms.tile_figures import backward_figure
from kernels.problem import AttentionProblem
from kernels.problem.tiles import streamed_queries
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef
from kernels.trace.timed import FLASH_ATTENTION


def main_bytes(problem: AttentionProblem) -> int:
    """K, V, dK and dV once; at every step Q, dO, lse and D in, the float32 sum of dQ in and out.

    Chu, Liu and Lin 2026, algorithm 8.
    """
    row = row_bytes(problem)
    once = problem.key_heads * problem.kv_len * 4 * row
    step = 2 * row + 2 * FLOAT32_BYTES + 2 * sum_row_bytes(problem)
    return once + problem.heads * streamed_queries(problem) * step


BACKWARD = Kernel(
    name="_attn_bwd_kv_outer",
    source=SourceRef("kernels.algorithms.backward_kv_outer.kv_outer", "_attn_bwd_kv_outer"),
    before=(Phase("load K, V", loads=("K", "V"), makes=("dK", "dV")),),
    step=(
        Phase("load Q, dO", loads=("Q", "dO")),
        Phase("QK^T", needs=("Q", "K"), makes=("S",), shows="scores", tells="scores"),
        Phase(
            "P from lse", loads=("lse",), needs=("S",), makes=("P",), shows="share", tells="weights from lse"
        ),
        Phase("mask", needs=("P",), makes=("P",), only_masked=True, tells="mask weights"),
        Phase("dV", needs=("P", "dO", "dV"), makes=("dV",), tells="gradient"),
        Phase("dP", needs=("V", "dO"), makes=("dP",), tells="d weights"),
        Phase("dS", loads=("D",), needs=("P", "dP"), makes=("dS",), tells="d scores"),
        Phase("dK", needs=("dS", "Q", "dK"), makes=("dK",), tells="gradient"),
        Phase("load dQ", loads=("dQ",)),
        Phase("dQ", needs=("dS", "K", "dQ"), makes=("dQ",), tells="gradient"),
        Phase("store dQ", needs=("dQ",), stores=("dQ",)),
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
        query_sum("dQ"),
        row_state("lse", "D"),
    ),
    requested_bytes=main_bytes,
    products=5,
    row_fields=("row_share",),
    sums=(
        RecordedSum("acc_dk", "kv_tile", "d_key"),
        RecordedSum("acc_dv", "kv_tile", "d_value"),
        RecordedSum("acc", "q_tile", "d_query"),
    ),
    stays="kv_tile",
    each="for each query tile that sees it",
    series=("share", "shares", "dK", "dV"),
    bars="share",
    figure=backward_figure(
        "load Q, dO",
        "load K, V",
        "load K, V",
        "load Q, dO",
        ("dV", "dK", "dQ"),
        d_scores="dS = P (dP − D) / √d",
    ),
)

ENTRY = Algorithm(
    name="backward_kv_outer",
    label="Backward, key outer",
    idea="dQ travels to HBM and back at every step",
    direction="backward",
    kernels=(PREPROCESS, BACKWARD),
    runner="kernels.algorithms.backward_kv_outer.run",
    rank=5,
    top=("K", "V", "dK", "dV"),
    left=("Q", "dO"),
    right=("O", "D", "dQ"),
    grid_words="P is recomputed and never in HBM",
    each_kernel_anew=True,
    step_cost=2.9,
    timed_as=FLASH_ATTENTION,
    checked="FlashAttention-2 forward, backward in the key-outer order",
    has_gradients=True,
    samples="heads",
)
