"""What is known of row-wise attention."""

from kernels.algorithms import chip
from kernels.problem import AttentionProblem
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef

RUNNER = "kernels.algorithms.row_wise.run"


def half_of_the_bytes(problem: AttentionProblem) -> int:
    """Q once and K once per block of rows; the second kernel asks for as much of V and O.

    Chu, Liu and Lin 2026, algorithm 1 and eq 36. No tile is skipped, whatever the mask.
    """
    per_head = problem.q_len + problem.q_tiles * problem.kv_len
    return problem.heads * per_head * chip.row_bytes(problem)


SCORES = Kernel(
    name="row-wise, scores",
    source=SourceRef(RUNNER, "_row_wise"),
    before=(Phase("load Q", loads=("Q",), makes=("m", "S")),),
    step=(
        Phase("load K", loads=("K",)),
        Phase("QK^T", needs=("Q", "K"), makes=("S",), shows="scores"),
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
    source=SourceRef(RUNNER, "_row_wise"),
    before=(Phase("softmax", needs=("S", "m"), makes=("P", "l", "O")),),
    step=(Phase("load V", loads=("V",)), Phase("PV", needs=("P", "V", "O"), makes=("O",), shows="share")),
    after=(Phase("store O", needs=("O",), stores=("O",)),),
    parts=(chip.key_tile("V"), chip.whole_rows("rows of P", "P"), chip.query_sum("O")),
    requested_bytes=half_of_the_bytes,
    products=1,
    row_fields=("row_max", "row_sum", "row_share"),
    sums=(RecordedSum("acc", "q_tile", "output"),),
    series=("share", "shares", "distance"),
    bars="share",
)

ENTRY = Algorithm(
    name="row_wise",
    label="Row-wise",
    idea="whole rows of S stay on the chip; run in torch, tile by tile",
    direction="forward",
    kernels=(SCORES, VALUES),
    runner=RUNNER,
    rank=7,
    runs_in="torch",
    skips_tiles=False,
    step_cost=0.01,
    checked="Row-wise attention, forward",
    gives_lse=False,
    recorded=("text", "gpt2", "tiny", "ragged"),
    samples="heads",
)
