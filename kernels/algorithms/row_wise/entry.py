"""What is known of row-wise attention, and of its backward pass."""

from dataclasses import replace

from kernels.algorithms import chip
from kernels.algorithms.backward import entry as plain
from kernels.problem import AttentionProblem
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef

MODULE = "kernels.algorithms.row_wise.run"


def half_of_the_bytes(problem: AttentionProblem) -> int:
    """Q once and K once per block of rows; the second kernel asks for as much of V and O.

    Chu, Liu and Lin 2026, algorithm 1 and eq 36. No tile is skipped, whatever the mask.
    """
    per_head = problem.q_len + problem.q_tiles * problem.kv_len
    return problem.heads * per_head * chip.row_bytes(problem)


SCORES = Kernel(
    name="row-wise, scores",
    source=SourceRef(MODULE, "_row_wise"),
    before=(Phase("load Q", loads=("Q",), makes=("m", "S")),),
    step=(
        Phase("load K", loads=("K",)),
        Phase("QK^T", needs=("Q", "K"), makes=("S",)),
        Phase("row max", needs=("S", "m"), makes=("m",)),
    ),
    parts=(chip.query_tile("Q"), chip.key_tile("K"), chip.whole_rows("rows of S", "S"), chip.row_state("m")),
    requested_bytes=half_of_the_bytes,
    products=1,
    row_fields=("row_max",),
    series=("m",),
    cells="plain",
)

VALUES = Kernel(
    name="row-wise, values",
    source=SourceRef(MODULE, "_row_wise"),
    before=(Phase("softmax", needs=("S", "m"), makes=("P", "l", "O")),),
    step=(Phase("load V", loads=("V",)), Phase("PV", needs=("P", "V", "O"), makes=("O",), shows="share")),
    after=(Phase("store O", needs=("O",), stores=("O",)),),
    parts=(chip.key_tile("V"), chip.whole_rows("rows of P", "P"), chip.query_sum("O")),
    requested_bytes=half_of_the_bytes,
    products=1,
    row_fields=("row_max", "row_sum", "row_share"),
    sums=(RecordedSum("acc", "q_tile"),),
    bars="share",
)

ENTRY = Algorithm(
    name="row_wise",
    label="Row-wise",
    idea="whole rows of S stay on the chip; run in torch, tile by tile",
    direction="forward",
    kernels=(SCORES, VALUES),
    runner=f"{MODULE}:RUNNER",
    rank=7,
    runs_in="torch",
    skips_tiles=False,
    step_cost=0.01,
    checked="Row-wise attention, forward",
    recorded=("text", "gpt2", "tiny", "ragged"),
    samples="heads",
)


def weights_bytes(problem: AttentionProblem) -> int:
    """Q, O and dO once, K and V once per block of rows. Chu, Liu and Lin 2026, algorithm 5, eq 65 and 66."""
    rows = 3 * problem.q_len + 2 * problem.q_tiles * problem.kv_len
    return problem.heads * rows * chip.row_bytes(problem)


def gradients_bytes(problem: AttentionProblem) -> int:
    """dQ once; per block of rows K again, and the float32 sums of dK and dV in and out. Eq 63 to 66."""
    row = chip.row_bytes(problem)
    per_block = problem.kv_len * (row + 4 * chip.sum_row_bytes(problem))
    return problem.heads * (problem.q_len * row + problem.q_tiles * per_block)


WEIGHTS = replace(
    SCORES,
    name="row-wise, P and dP",
    source=SourceRef("kernels.algorithms.row_wise.backward", "_row_wise_backward"),
    before=(Phase("load Q, O, dO", loads=("Q", "O", "dO"), makes=("D", "m", "S", "dP")),),
    step=(Phase("load K, V", loads=("K", "V")), *SCORES.step[1:], plain.DP),
    parts=(
        *(*SCORES.parts, chip.query_tile("O"), chip.query_tile("dO"), chip.key_tile("V")),
        *(chip.whole_rows("rows of dP", "dP"), chip.row_state("D")),
    ),
    requested_bytes=weights_bytes,
    products=2,
)

GRADIENTS = replace(
    VALUES,
    name="row-wise, gradients",
    source=WEIGHTS.source,
    before=(Phase("softmax, dS", needs=("S", "m", "dP", "D"), makes=("P", "l", "dS", "dQ")),),
    step=(
        Phase("load K, dK, dV", loads=("K", "dK", "dV")),
        *(replace(plain.ADD_DV, shows="share"), plain.ADD_DK, plain.ADD_DQ, plain.STORE_DK_DV),
    ),
    after=(plain.STORE_DQ,),
    parts=(
        *(chip.query_tile("Q"), chip.query_tile("dO"), chip.key_tile("K")),
        *(chip.whole_rows("rows of P", "P"), chip.whole_rows("rows of dS", "dS")),
        *(chip.key_sum("dK"), chip.key_sum("dV"), chip.query_sum("dQ")),
    ),
    requested_bytes=gradients_bytes,
    products=3,
    sums=(RecordedSum("acc", "q_tile"),),
)

BACKWARD = Algorithm(
    name="row_wise_backward",
    label="Row-wise backward",
    idea="whole rows of P and dP stay on the chip; run in torch, tile by tile",
    direction="backward",
    kernels=(WEIGHTS, GRADIENTS),
    runner="kernels.algorithms.row_wise.backward",
    rank=7,
    runs_in="torch",
    top=("K", "V", "dK", "dV"),
    left=("Q", "dO", "O", "dQ"),
    skips_tiles=False,
    step_cost=0.01,
    recorded=("text",),
    samples="heads",
)
ENTRIES = (ENTRY, BACKWARD)
