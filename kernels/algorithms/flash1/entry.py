"""What is known of FlashAttention-1."""

from kernels.algorithms.chip import (
    FLOAT32_BYTES,
    key_tile,
    query_sum,
    query_tile,
    row_bytes,
    row_state,
    scores,
    sum_row_bytes,
)
from kernels.algorithms.flash2.entry import ONLINE_SOFTMAX, ROW_FIELDS, SERIES
from kernels.algorithms.tile_figures import forward_figure
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef


def requested_bytes(problem: AttentionProblem) -> int:
    """K and V once; at every step Q, O, m and l are read, and O, m and l are written.

    Dao et al. 2022, algorithm 1; Chu, Liu and Lin 2026, algorithm 4. Between steps O is float32; the last
    step writes it in the type of Q.
    """
    row, sum_row = row_bytes(problem), sum_row_bytes(problem)
    per_head = 2 * problem.kv_len * row
    for q_tile in range(problem.q_tiles):
        visits = visited_tiles(problem, q_tile).count
        rows = min(problem.block_m, problem.q_len - q_tile * problem.block_m)
        per_head += visits * rows * (row + 2 * sum_row + 4 * FLOAT32_BYTES)
        if visits:
            per_head += rows * (row - sum_row + FLOAT32_BYTES)
    return per_head * problem.heads


FIGURE = forward_figure("load Q, O, m, l", "load K, V", "load K, V", old_o="load Q, O, m, l")

FORWARD = Kernel(
    name="_attn_fwd_kv_outer",
    source=SourceRef(
        "kernels.algorithms.flash1.forward_kv_outer", "_attn_fwd_kv_outer", steps=(ONLINE_SOFTMAX,)
    ),
    before=(Phase("load K, V", loads=("K", "V")),),
    step=(
        Phase("load Q, O, m, l", loads=("Q", "O", "m", "l")),
        Phase("QK^T", needs=("Q", "K"), makes=("S",), shows="scores", sentence_key="scores"),
        Phase("mask", needs=("S",), makes=("S",), only_masked=True, sentence_key="mask"),
        Phase("row max", needs=("S", "m"), makes=("m",), sentence_key="row max"),
        Phase("exponentials", needs=("S", "m"), makes=("P",), shows="share", sentence_key="exponentials"),
        Phase(
            "rescale",
            needs=("P", "m", "l", "O"),
            makes=("l", "O"),
            rescales=True,
            sentence_key="rescale output",
        ),
        Phase("PV", needs=("P", "V", "O"), makes=("O",), sentence_key="add output"),
        Phase("store O, m, l, lse", needs=("O", "m", "l"), stores=("O", "m", "l", "lse")),
    ),
    parts=(
        key_tile("K"),
        key_tile("V"),
        query_tile("Q"),
        scores("S, P", "S", "P"),
        query_sum("O"),
        row_state("m", "l"),
    ),
    requested_bytes=requested_bytes,
    products=2,
    row_fields=ROW_FIELDS,
    sums=(RecordedSum("acc", "q_tile", "output"),),
    stays="kv_tile",
    each="for each query tile that sees it",
    series=SERIES,
    bars="l",
    figure=FIGURE,
)

ENTRY = Algorithm(
    name="flash1",
    label="FlashAttention-1",
    idea="a key tile stays, O, m and l travel to HBM and back at every step",
    direction="forward",
    kernels=(FORWARD,),
    runner="kernels.algorithms.flash1.run",
    rank=2,
    step_cost=2.1,
    checked="FlashAttention-1, forward",
    recorded=("gpt2", "tiny", "llama3", "ragged", "window"),
    samples="heads",
)
