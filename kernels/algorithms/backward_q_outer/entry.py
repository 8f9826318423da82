"""What is known of the backward pass with the query tile outside."""

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
from kernels.problem.tiles import streamed_keys
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef
from kernels.trace.timed import FLASH_ATTENTION


def requested_bytes(problem: AttentionProblem) -> int:
    """O, dO, Q, lse and dQ once; at every step K and V in, the float32 sums of dK and dV in and out.

    Chu, Liu and Lin 2026, algorithm 6.
    """
    row = row_bytes(problem)
    once = problem.q_len * (4 * row + FLOAT32_BYTES)
    return problem.heads * (once + streamed_keys(problem) * (2 * row + 4 * sum_row_bytes(problem)))


BACKWARD = Kernel(
    name="_attn_bwd_q_outer",
    source=SourceRef("kernels.algorithms.backward_q_outer.q_outer", "_attn_bwd_q_outer"),
    before=(Phase("load O, dO, lse, Q", loads=("O", "dO", "lse", "Q"), makes=("D", "dQ")),),
    step=(
        Phase("load K, V, dK, dV", loads=("K", "V", "dK", "dV")),
        Phase("QK^T", needs=("Q", "K"), makes=("S",), shows="scores", tells="scores"),
        Phase("P from lse", needs=("S", "lse"), makes=("P",), shows="share", tells="weights from lse"),
        Phase("mask", needs=("P",), makes=("P",), only_masked=True, tells="mask weights"),
        Phase("dV", needs=("P", "dO", "dV"), makes=("dV",), tells="gradient"),
        Phase("dP", needs=("V", "dO"), makes=("dP",), tells="d weights"),
        Phase("dS", needs=("P", "dP", "D"), makes=("dS",), tells="d scores"),
        Phase("dK", needs=("dS", "Q", "dK"), makes=("dK",), tells="gradient"),
        Phase("dQ", needs=("dS", "K", "dQ"), makes=("dQ",), tells="gradient"),
        Phase("store dK, dV", needs=("dK", "dV"), stores=("dK", "dV")),
    ),
    after=(Phase("store dQ", needs=("dQ",), stores=("dQ",)),),
    parts=(
        query_tile("Q"),
        query_tile("dO"),
        query_tile("O"),
        key_tile("K"),
        key_tile("V"),
        scores("S, P", "S", "P"),
        scores("dS", "dP", "dS"),
        key_sum("dK"),
        key_sum("dV"),
        query_sum("dQ"),
        row_state("lse", "D"),
    ),
    requested_bytes=requested_bytes,
    products=5,
    row_fields=("row_share",),
    sums=(
        RecordedSum("acc_dk", "kv_tile", "d_key"),
        RecordedSum("acc_dv", "kv_tile", "d_value"),
        RecordedSum("acc", "q_tile", "d_query"),
    ),
    series=("share", "shares", "dQ"),
    bars="share",
    figure=backward_figure(
        "load O, dO, lse, Q",
        "load K, V, dK, dV",
        "load K, V, dK, dV",
        "load O, dO, lse, Q",
        ("dV", "dK", "dQ"),
        d_scores="dS = P (dP − D) / √d",
    ),
)

ENTRY = Algorithm(
    name="backward_q_outer",
    label="Backward, query outer",
    idea="dK and dV travel to HBM and back at every step",
    direction="backward",
    kernels=(BACKWARD,),
    runner="kernels.algorithms.backward_q_outer.run",
    rank=5,
    top=("K", "V", "dK", "dV"),
    left=("Q", "dO"),
    right=("O", "dQ"),
    grid_words="P is recomputed and never in HBM",
    step_cost=2.9,
    timed_as=FLASH_ATTENTION,
    checked="FlashAttention-2 forward, backward in the query-outer order",
    has_gradients=True,
    recorded=("gpt2", "tiny", "ragged"),
    samples="heads",
)
