"""What is known of the backward pass as three kernels."""

from dataclasses import replace

from kernels.algorithms import chip
from kernels.algorithms.tile_figures import DELTA_FIGURE, backward_figure
from kernels.problem import AttentionProblem
from kernels.problem.tiles import streamed_keys, streamed_queries
from kernels.trace.algorithm import FLASH_ATTENTION, Algorithm, Kernel, Phase, RecordedSum, SourceRef
from kernels.trace.lanes import OTHER, PRODUCT, SOFTMAX, WAIT, Activity, LaneKernel, LaneRole

KEY_PROGRAM = LaneRole(
    "dK, dV",
    ("start", "has Q", "has S", "has P", "has dO", "has dV", "has dP", "has dS", "has dK", "wrote"),
    (
        Activity("wait for Q", WAIT, "load Q", "start", "has Q"),
        Activity("S^T", PRODUCT, "QK^T", "has Q", "has S"),
        Activity("P^T", SOFTMAX, "P from lse", "has S", "has P"),
        Activity("wait for dO", WAIT, "load dO", "has P", "has dO"),
        Activity("dV", PRODUCT, "dV", "has dO", "has dV"),
        Activity("dP^T", PRODUCT, "dP", "has dV", "has dP"),
        Activity("dS^T", OTHER, "dS", "has dP", "has dS"),
        Activity("dK", PRODUCT, "dK", "has dS", "has dK"),
        Activity("write dK, dV", OTHER, "store dK, dV", "has dK", "wrote"),
    ),
    kernel="_attn_bwd_dk_dv",
)
"""A program keeps a key tile; a turn is about a query tile of one of its query heads.

All warps of a program do the same: it has one lane. The kernels run with one stage, so a tile is waited for
where it is loaded, and a product where it is issued. Without TMA the warps go on after a load; then the time
of a product includes the wait for its tile.
"""

QUERY_PROGRAM = LaneRole(
    "dQ",
    ("start", "has K", "has S", "has P", "has V", "has dP", "has dS", "has dQ", "wrote"),
    (
        Activity("wait for K", WAIT, "load K", "start", "has K"),
        Activity("S", PRODUCT, "QK^T", "has K", "has S"),
        Activity("P", SOFTMAX, "P from lse", "has S", "has P"),
        Activity("wait for V", WAIT, "load V", "has P", "has V"),
        Activity("dP", PRODUCT, "dP", "has V", "has dP"),
        Activity("dS", OTHER, "dS", "has dP", "has dS"),
        Activity("dQ", PRODUCT, "dQ", "has dS", "has dQ"),
        Activity("write dQ", OTHER, "store dQ", "has dQ", "wrote"),
    ),
    kernel="_attn_bwd_dq",
)
"""A program keeps a query tile; a turn is about a key tile."""

PLAIN = LaneKernel(
    "backward_plain",
    "Plain backward kernels",
    "kernels.algorithms.backward.run",
    (KEY_PROGRAM, QUERY_PROGRAM),
    words="Two kernels, one after the other: the first computes dK and dV, the second dQ. The time is that "
    "of both; the short kernel before them, which computes D, is not in it. An SM's time is that from its "
    "first program to its last in each of the two, without the pause between them. On a GPU without TMA, and "
    "with tiles of fewer than 16 rows, the time of a product includes the wait for its tile.",
    as_played=True,
)


FOLDER = "kernels.algorithms.backward"
ROW_FIELDS = ("row_share",)


def preprocess_bytes(problem: AttentionProblem) -> int:
    """O and dO read, D written. Dao 2023, algorithm 2."""
    return problem.heads * problem.q_len * (2 * chip.row_bytes(problem) + chip.FLOAT32_BYTES)


def dk_dv_bytes(problem: AttentionProblem) -> int:
    """K, V, dK and dV once; Q, dO, lse and D once per key tile that they see. Dao 2023, algorithm 2."""
    row = chip.row_bytes(problem)
    once = problem.key_heads * problem.kv_len * 4 * row
    return once + streamed_queries(problem) * (2 * row + 2 * chip.FLOAT32_BYTES)


def dq_bytes(problem: AttentionProblem) -> int:
    """Q, dO, lse, D and dQ once; K and V once per query tile that sees them.

    Dao 2023, algorithm 2, with dQ in a kernel of its own instead of atomic adds.
    """
    row = chip.row_bytes(problem)
    per_head = problem.q_len * (3 * row + 2 * chip.FLOAT32_BYTES)
    return problem.heads * per_head + streamed_keys(problem) * 2 * row


QK = Phase("QK^T", needs=("Q", "K"), makes=("S",), sentence_key="scores")
P = Phase("P from lse", needs=("S", "lse"), makes=("P",), shows="share", sentence_key="weights from lse")
MASK_P = Phase("mask", needs=("P",), makes=("P",), only_masked=True, sentence_key="mask weights")
DP = Phase("dP", needs=("V", "dO"), makes=("dP",), sentence_key="d weights")
DS = Phase("dS", needs=("P", "dP", "D"), makes=("dS",), sentence_key="d scores")
ADD_DV, ADD_DK, ADD_DQ = (
    Phase(name, needs=needs, makes=(name,), sentence_key="gradient")
    for name, needs in (("dV", ("P", "dO", "dV")), ("dK", ("dS", "Q", "dK")), ("dQ", ("dS", "K", "dQ")))
)
LOADS_LSE, LOADS_D = replace(P, loads=("lse",), needs=("S",)), replace(DS, loads=("D",), needs=("P", "dP"))
"""P and dS of a kernel that loads lse and D with each query tile."""
UNSCALED_DK, UNSCALED_DQ = (replace(phase, sentence_key="unscaled gradient") for phase in (ADD_DK, ADD_DQ))
STORE_DK_DV = Phase("store dK, dV", needs=("dK", "dV"), stores=("dK", "dV"))
STORE_DQ = Phase("store dQ", needs=("dQ",), stores=("dQ",))

KEYS = (chip.key_tile("K"), chip.key_tile("V"))
QUERIES = (chip.query_tile("Q"), chip.query_tile("dO"))
SQUARES = (chip.scores("S, P", "S", "P"), chip.scores("dS", "dP", "dS"))

PREPROCESS = Kernel(
    name="_attn_bwd_preprocess",
    source=SourceRef(f"{FOLDER}.preprocess", "_attn_bwd_preprocess"),
    before=(
        Phase("load O, dO", loads=("O", "dO")),
        Phase("D", needs=("O", "dO"), makes=("D",), sentence_key="row sums of O dO"),
        Phase("store D", needs=("D",), stores=("D",)),
    ),
    step=(),
    parts=(chip.query_tile("O"), chip.query_tile("dO"), chip.row_state("D")),
    requested_bytes=preprocess_bytes,
    row_flops=2,
    cells="",
    figure=DELTA_FIGURE,
)

DK_DV = Kernel(
    name="_attn_bwd_dk_dv",
    source=SourceRef(f"{FOLDER}.dk_dv", "_attn_bwd_dk_dv", inner="_attn_bwd_dk_dv_inner"),
    before=(Phase("load K, V", loads=("K", "V"), makes=("dK", "dV")),),
    step=(
        Phase("load Q", loads=("Q",)),
        QK,
        LOADS_LSE,
        MASK_P,
        Phase("load dO", loads=("dO",)),
        ADD_DV,
        DP,
        LOADS_D,
        UNSCALED_DK,
    ),
    after=(STORE_DK_DV,),
    parts=(
        *(*KEYS, *QUERIES, *SQUARES),
        *(chip.key_sum("dK"), chip.key_sum("dV"), chip.row_state("lse", "D")),
    ),
    requested_bytes=dk_dv_bytes,
    products=4,
    row_fields=ROW_FIELDS,
    sums=(
        RecordedSum("acc_dk", "kv_tile"),
        RecordedSum("acc_dv", "kv_tile"),
    ),
    stays="kv_tile",
    each="for each query tile that sees it",
    bars="share",
    figure=backward_figure("load Q", "load K, V", "load K, V", "load dO", ("dV", "dK")),
)

DQ = Kernel(
    name="_attn_bwd_dq",
    source=SourceRef(f"{FOLDER}.dq", "_attn_bwd_dq", inner="_attn_bwd_dq_inner"),
    before=(Phase("load Q, dO, lse, D", loads=("Q", "dO", "lse", "D"), makes=("dQ",)),),
    step=(
        Phase("load K", loads=("K",)),
        QK,
        Phase("mask", needs=("S",), makes=("S",), only_masked=True, sentence_key="mask"),
        P,
        Phase("load V", loads=("V",)),
        DP,
        DS,
        UNSCALED_DQ,
    ),
    after=(STORE_DQ,),
    parts=(*QUERIES, *KEYS, *SQUARES, chip.query_sum("dQ"), chip.row_state("lse", "D")),
    requested_bytes=dq_bytes,
    products=3,
    row_fields=ROW_FIELDS,
    sums=(RecordedSum("acc", "q_tile"),),
    longest_first=True,
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
    rank=5,
    top=("K", "V", "dK", "dV"),
    left=("Q", "dO", "O", "lse", "D", "dQ"),
    each_kernel_anew=True,
    step_cost=3.0,
    timed_as=FLASH_ATTENTION,
    recorded=("text", "gpt2", "tiny", "llama3", "ragged", "layer", "window"),
    samples="heads",
    lanes=PLAIN,
    takes_patterns=True,
)
