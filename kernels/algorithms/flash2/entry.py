"""What is known of FlashAttention-2."""

from kernels.algorithms import chip
from kernels.algorithms.tile_figures import forward_figure
from kernels.problem import AttentionProblem
from kernels.problem.tiles import streamed_keys
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef, TimedAs
from kernels.trace.lanes import OTHER, PRODUCT, SOFTMAX, Activity, LaneKernel, LaneRole
from kernels.trace.sample import tile_bounds

ONLINE_SOFTMAX = ("kernels.primitives.online_softmax", "online_softmax")

TILE_STEP = (
    Phase("load K", loads=("K",)),
    Phase("QK^T", needs=("Q", "K"), makes=("S",), sentence_key="scores"),
    Phase("mask", needs=("S",), makes=("S",), only_masked=True, sentence_key="mask"),
    Phase("row max", needs=("S", "m"), makes=("m",), sentence_key="row max"),
    Phase("exponentials", needs=("S", "m"), makes=("P",), shows="share", sentence_key="exponentials"),
    Phase("rescale", needs=("P", "m", "l", "O"), makes=("l", "O"), rescales=True, sentence_key="rescale"),
    Phase("load V", loads=("V",)),
    Phase("PV", needs=("P", "V", "O"), makes=("O",), sentence_key="add"),
)
"""A tile step of the forward kernels that keep a query tile and stream keys past it."""

ON_CHIP = (
    chip.query_tile("Q"),
    chip.key_tile("K"),
    chip.key_tile("V"),
    chip.scores("S, P", "S", "P"),
    chip.query_sum("O"),
    chip.row_state("m", "l"),
)
WARPS = LaneRole(
    "program",
    ("start", "has S", "has P", "done", "wrote"),
    (
        Activity("QK^T", PRODUCT, "QK^T", "start", "has S"),
        Activity("softmax", SOFTMAX, "exponentials", "has S", "has P"),
        Activity("PV", PRODUCT, "PV", "has P", "done", or_next="has S"),
        Activity("write O", OTHER, "store O, lse", "done", "wrote"),
    ),
)
"""All warps of a program do the same. PV is waited for together with QK^T of the next tile. The time of a
product includes the wait for its tile, because the compiler places both."""
ROW_FIELDS = ("row_max", "row_sum", "alpha")
SERIES = ("m", "l", "alpha")


def requested_bytes(problem: AttentionProblem, blocks: tuple[int, int] | None = None) -> int:
    """Q, O and lse once, K and V once per query tile that sees them.

    Dao 2023, algorithm 1, without the tiles that the mask skips; `blocks` replaces the problem's tile sizes.
    """
    row = chip.row_bytes(problem)
    per_head = problem.q_len * (2 * row + chip.FLOAT32_BYTES)
    return problem.heads * per_head + streamed_keys(problem, blocks) * 2 * row


def tile_bytes(problem: AttentionProblem, q_tile: int) -> dict[str, int]:
    """Requested bytes of one query tile of one head: the terms of `requested_bytes`, by tensor.

    If heads see different keys, those of a mean head, rounded down.
    """
    first, end = tile_bounds(problem, q_tile)
    keys, row = streamed_keys(problem, q_tile=q_tile) // problem.heads, chip.row_bytes(problem)
    rows = end - first
    return {
        "Q": rows * row,
        "K": keys * row,
        "V": keys * row,
        "O": rows * row,
        "lse": rows * chip.FLOAT32_BYTES,
    }


FORWARD = Kernel(
    name="_attn_fwd",
    source=SourceRef(
        "kernels.algorithms.flash2.forward", "_attn_fwd", inner="_attn_fwd_inner", steps=(ONLINE_SOFTMAX,)
    ),
    before=(Phase("load Q", loads=("Q",), makes=("m", "l", "O")),),
    step=TILE_STEP,
    after=(Phase("store O, lse", needs=("O", "m", "l"), stores=("O", "lse"), sentence_key="finish"),),
    parts=ON_CHIP,
    requested_bytes=requested_bytes,
    products=2,
    row_fields=ROW_FIELDS,
    sums=(RecordedSum("acc", "q_tile"),),
    longest_first=True,
    series=SERIES,
    bars="l",
    figure=forward_figure(),
)

LABEL = "FlashAttention-2"
LANES = LaneKernel("flash2", LABEL, "kernels.algorithms.flash2.run", (WARPS,))

ENTRY = Algorithm(
    name="flash2",
    label=LABEL,
    idea="a query tile stays, keys and values stream past it",
    left=("Q", "O", "lse"),
    direction="forward",
    kernels=(FORWARD,),
    runner="kernels.algorithms.flash2.run",
    rank=1,
    timed_as=TimedAs("flash2"),
    checked="FlashAttention-2, forward and backward",
    has_gradients=True,
    recorded=("text", "gpt2", "tiny", "llama3", "ragged", "layer", "window", "decode", "documents"),
    samples="tiles",
    tile_bytes=tile_bytes,
    lanes=LANES,
    takes_patterns=True,
)
