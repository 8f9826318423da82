"""What is known of FlashAttention-1."""

from kernels.algorithms import chip
from kernels.algorithms.flash2.entry import ONLINE_SOFTMAX, ROW_FIELDS, SERIES, TILE_STEP
from kernels.algorithms.tile_figures import forward_figure
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef


def requested_bytes(problem: AttentionProblem) -> int:
    """K and V once; at every step Q, O, m and l are read, and O, m and l are written.

    Dao et al. 2022, algorithm 1; Chu, Liu and Lin 2026, algorithm 4. Between steps O is float32; the last
    step writes it in the type of Q.
    """
    row, sum_row = chip.row_bytes(problem), chip.sum_row_bytes(problem)
    per_head = 2 * problem.kv_len * row
    for q_tile in range(problem.q_tiles):
        visits = visited_tiles(problem, q_tile).count
        rows = min(problem.block_m, problem.q_len - q_tile * problem.block_m)
        per_head += visits * rows * (row + 2 * sum_row + 4 * chip.FLOAT32_BYTES)
        if visits:
            per_head += rows * (row - sum_row + chip.FLOAT32_BYTES)
    return per_head * problem.heads


FORWARD = Kernel(
    name="_attn_fwd_kv_outer",
    source=SourceRef(
        "kernels.algorithms.flash1.forward_kv_outer", "_attn_fwd_kv_outer", steps=(ONLINE_SOFTMAX,)
    ),
    before=(Phase("load K, V", loads=("K", "V")),),
    step=(
        Phase("load Q, O, m, l", loads=("Q", "O", "m", "l")),
        *TILE_STEP[1:5],  # QK^T, mask, row max, exponentials
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
        chip.key_tile("K"),
        chip.key_tile("V"),
        chip.query_tile("Q"),
        chip.scores("S, P", "S", "P"),
        chip.query_sum("O"),
        chip.row_state("m", "l"),
    ),
    requested_bytes=requested_bytes,
    products=2,
    row_fields=ROW_FIELDS,
    sums=(RecordedSum("acc", "q_tile"),),
    stays="kv_tile",
    each="for each query tile that sees it",
    series=SERIES,
    bars="l",
    figure=forward_figure("load Q, O, m, l", "load K, V", "load K, V", old_o="load Q, O, m, l"),
)

ENTRY = Algorithm(
    name="flash1",
    label="FlashAttention-1",
    left=("Q", "O", "m", "l", "lse"),
    idea="a key tile stays, O, m and l travel to HBM and back at every step",
    direction="forward",
    kernels=(FORWARD,),
    runner="kernels.algorithms.flash1.run",
    rank=2,
    step_cost=2.1,
    checked="FlashAttention-1, forward",
    recorded=("text", "gpt2", "tiny", "llama3", "ragged", "window"),
    samples="heads",
)
