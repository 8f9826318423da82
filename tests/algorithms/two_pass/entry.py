"""What is known of attention in two passes."""

from kernels.algorithms import chip
from kernels.problem import AttentionProblem
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef

RUNNER = "kernels.algorithms.two_pass.run"


def sums_bytes(problem: AttentionProblem) -> int:
    """Q once, K once per query tile. No tile is skipped."""
    per_head = problem.q_len + problem.q_tiles * problem.kv_len
    return problem.heads * per_head * chip.row_bytes(problem)


def output_bytes(problem: AttentionProblem) -> int:
    """K and V once per query tile; O and lse once."""
    per_head = (problem.q_len + 2 * problem.q_tiles * problem.kv_len) * chip.row_bytes(problem)
    return problem.heads * (per_head + problem.q_len * chip.FLOAT32_BYTES)


SUMS = Kernel(
    name="first pass",
    source=SourceRef(RUNNER, "_two_pass"),
    before=(Phase("load Q", loads=("Q",), makes=("m", "l")),),
    step=(
        Phase("load K", loads=("K",)),
        Phase("scores", needs=("Q", "K"), makes=("S",)),
        Phase("max and sum", needs=("S", "m", "l"), makes=("m", "l"), rescales=True),
    ),
    parts=(chip.query_tile("Q"), chip.key_tile("K"), chip.scores("S"), chip.row_state("m", "l")),
    requested_bytes=sums_bytes,
    products=1,
    row_fields=("row_max", "row_sum"),
    series=("m", "l"),
    bars="l",
    cells="plain",
)

OUTPUT = Kernel(
    name="second pass",
    source=SourceRef(RUNNER, "_two_pass"),
    before=(Phase("empty O", makes=("O",)),),
    step=(
        Phase("load K again", loads=("K",)),
        Phase("scores again", needs=("Q", "K"), makes=("S",)),
        Phase("weights", needs=("S", "m", "l"), makes=("P",), shows="share"),
        Phase("load V", loads=("V",)),
        Phase("weights · V", needs=("P", "V", "O"), makes=("O",)),
    ),
    after=(Phase("store O, lse", needs=("O", "m", "l"), stores=("O", "lse")),),
    parts=(
        *(chip.query_tile("Q"), chip.key_tile("K"), chip.key_tile("V")),
        *(chip.scores("S, P", "S", "P"), chip.query_sum("O"), chip.row_state("m", "l")),
    ),
    requested_bytes=output_bytes,
    products=2,
    row_fields=("row_share",),
    sums=(RecordedSum("acc", "q_tile"),),
    bars="share",
)

ENTRY = Algorithm(
    name="two_pass",
    label="Two passes",
    idea="the row max and sum first, the weights and O in a second pass over the keys",
    direction="forward",
    kernels=(SUMS, OUTPUT),
    runner=RUNNER,
    runs_in="torch",
    skips_tiles=False,
    step_cost=0.01,
    checked="Two passes, forward",
    recorded=("tiny",),  # nobody has recorded it
)
