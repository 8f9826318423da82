"""What is known of split-KV decoding."""

from dataclasses import replace

from kernels.algorithms.chip import query_sum, row_state
from kernels.algorithms.flash2.entry import FORWARD, ON_CHIP, ONLINE_SOFTMAX, TILE_STEP
from kernels.algorithms.tile_figures import COMBINE_FIGURE
from kernels.device.gpus import SHARED
from kernels.trace.algorithm import (
    BLOCK_TABLE,
    FLASH_ATTENTION,
    TABLE_ENTRY_BYTES,
    Algorithm,
    ChipPart,
    Kernel,
    Phase,
    RecordedSum,
    SourceRef,
    TimedAs,
)

TIMED = TimedAs(
    FLASH_ATTENTION.peer,
    FLASH_ATTENTION.timing_source,
    "Timed is `flash_attention`. It runs split-KV decoding if the heads that share a key head have at most "
    "64 queries together, and another kernel if they have more.",
)

SPLIT = replace(
    FORWARD,
    name="_attn_split_kv",
    source=SourceRef("kernels.algorithms.split_kv.split", "_attn_split_kv", steps=(ONLINE_SOFTMAX,)),
    after=(
        Phase(
            "store partial O, lse",
            needs=("O", "m", "l"),
            stores=("partial O", "partial lse"),
            sentence_key="finish part",
        ),
    ),
    requested_bytes=None,
    sums=(RecordedSum("acc", "q_tile"),),
    splits_keys=True,
    longest_first=False,
)

SPLIT_PAGED = replace(
    SPLIT,
    step=(
        Phase("load table", loads=(BLOCK_TABLE,), sentence_key="page"),
        *(replace(phase, needs=(BLOCK_TABLE,)) if phase.loads else phase for phase in TILE_STEP),
    ),
    parts=(*ON_CHIP, ChipPart(BLOCK_TABLE, lambda problem: TABLE_ENTRY_BYTES, (BLOCK_TABLE,))),
)
"""The same kernel on keys that lie in pages. Of the block table, it has one entry at a time."""

COMBINE = Kernel(
    name="_attn_combine",
    source=SourceRef("kernels.algorithms.split_kv.combine", "_attn_combine"),
    before=(
        Phase("load partial lse", loads=("partial lse",)),
        Phase("log-sum-exp", needs=("partial lse",), makes=("lse", "O"), sentence_key="log-sum-exp"),
    ),
    step=(
        Phase("load partial O", loads=("partial O",)),
        Phase(
            "weigh",
            loads=("partial lse",),
            needs=("partial O", "lse", "O"),
            makes=("O",),
            shows="share",
            sentence_key="weigh",
        ),
    ),
    after=(Phase("store O, lse", needs=("O", "lse"), stores=("O", "lse")),),
    parts=(query_sum("partial O", SHARED), query_sum("O"), row_state("lse", "partial lse")),
    row_flops=2,
    row_fields=("weight",),
    combines_parts=True,
    each="for each part of the keys",
    bars="weight",
    figure=COMBINE_FIGURE,
)

ENTRY = Algorithm(
    name="split_kv",
    label="Split-KV decoding",
    idea="each part of the keys has a program of its own, then lse combines the parts",
    direction="forward",
    kernels=(SPLIT, COMBINE),
    runner="kernels.algorithms.split_kv.run:RUNNER",
    rank=3,
    top=("K", "V", "partial O"),
    left=("Q", "O", "lse"),
    packs_heads=True,
    step_cost=1.2,
    timed_as=TIMED,
    checked="Split-KV decoding, forward",
    recorded=("text", "decode"),
    samples="heads",
)
