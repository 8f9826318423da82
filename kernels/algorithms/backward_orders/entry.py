"""What is known of the two loop orders of the backward pass."""

from dataclasses import replace
from typing import Any

from kernels.algorithms import chip
from kernels.algorithms.backward import entry as plain
from kernels.algorithms.tile_figures import backward_figure
from kernels.problem import AttentionProblem
from kernels.problem.tiles import streamed_keys, streamed_queries
from kernels.trace.algorithm import (
    FLASH_ATTENTION,
    Algorithm,
    ChipPart,
    Kernel,
    Phase,
    RecordedSum,
    SourceRef,
)

FOLDER = "kernels.algorithms.backward_orders."


def kv_outer_bytes(problem: AttentionProblem) -> int:
    """K, V, dK and dV once; at every step Q, dO, lse and D in, the float32 sum of dQ in and out.

    Chu, Liu and Lin 2026, algorithm 8.
    """
    row = chip.row_bytes(problem)
    once = problem.key_heads * problem.kv_len * 4 * row
    step = 2 * row + 2 * chip.FLOAT32_BYTES + 2 * chip.sum_row_bytes(problem)
    return once + streamed_queries(problem) * step


def q_outer_bytes(problem: AttentionProblem) -> int:
    """O, dO, Q, lse and dQ once; at every step K and V in, the float32 sums of dK and dV in and out.

    Chu, Liu and Lin 2026, algorithm 6.
    """
    row = chip.row_bytes(problem)
    once = problem.q_len * (4 * row + chip.FLOAT32_BYTES)
    step = 2 * row + 4 * chip.sum_row_bytes(problem)
    return problem.heads * once + streamed_keys(problem) * step


def _kernel(name: str, module: str, tiles: tuple[ChipPart, ...], **own: Any) -> Kernel:
    """A kernel of five products; `tiles` are the tiles of its inputs on the chip."""
    kernel = Kernel(
        name=name,
        source=SourceRef(FOLDER + module, name),
        parts=(
            *(*tiles, *plain.SQUARES),
            *(chip.key_sum("dK"), chip.key_sum("dV"), chip.query_sum("dQ"), chip.row_state("lse", "D")),
        ),
        products=5,
        row_fields=("row_share",),
        sums=(
            RecordedSum("acc_dk", "kv_tile"),
            RecordedSum("acc_dv", "kv_tile"),
            RecordedSum("acc", "q_tile"),
        ),
        bars="share",
        **own,
    )
    load_of = {tensor: phase.name for phase in (*kernel.before, *kernel.step) for tensor in phase.loads}
    load_q, load_k, load_v, load_do = (load_of[tensor] for tensor in ("Q", "K", "V", "dO"))
    sums, d_scores = ("dV", "dK", "dQ"), "dS = P (dP − D) / √d"
    figure = backward_figure(load_q, load_k, load_v, load_do, sums, d_scores)
    return replace(kernel, figure=figure)


KV_OUTER = _kernel(
    "_attn_bwd_kv_outer",
    "kv_outer",
    (*plain.KEYS, *plain.QUERIES),
    before=(Phase("load K, V", loads=("K", "V"), makes=("dK", "dV")),),
    step=(
        Phase("load Q, dO", loads=("Q", "dO")),
        *(plain.QK, plain.LOADS_LSE, plain.MASK_P, plain.ADD_DV, plain.DP, plain.LOADS_D, plain.ADD_DK),
        Phase("load dQ", loads=("dQ",)),
        plain.ADD_DQ,
        plain.STORE_DQ,
    ),
    after=(plain.STORE_DK_DV,),
    requested_bytes=kv_outer_bytes,
    stays="kv_tile",
    each="for each query tile that sees it",
)

Q_OUTER = _kernel(
    "_attn_bwd_q_outer",
    "q_outer",
    (*plain.QUERIES, chip.query_tile("O"), *plain.KEYS),
    before=(Phase("load O, dO, lse, Q", loads=("O", "dO", "lse", "Q"), makes=("D", "dQ")),),
    step=(
        Phase("load K, V, dK, dV", loads=("K", "V", "dK", "dV")),
        *(plain.QK, plain.P, plain.MASK_P, plain.ADD_DV, plain.DP, plain.DS, plain.ADD_DK, plain.ADD_DQ),
        plain.STORE_DK_DV,
    ),
    after=(plain.STORE_DQ,),
    requested_bytes=q_outer_bytes,
)


def _entry(kernels: tuple[Kernel, ...], order: str, checked: str, **own: Any) -> Algorithm:
    return Algorithm(
        name=f"backward_{order}",
        direction="backward",
        kernels=kernels,
        runner=f"{FOLDER}run:{order.upper()}",
        rank=6,
        top=("K", "V", "dK", "dV"),
        step_cost=2.9,
        timed_as=FLASH_ATTENTION,
        checked=f"FlashAttention-2 forward, backward in the {checked} order",
        has_gradients=True,
        samples="heads",
        **own,
    )


KV_OUTER_ENTRY = _entry(
    (plain.PREPROCESS, KV_OUTER),
    "kv_outer",
    "key-outer",
    label="Backward, key outer",
    idea="dQ travels to HBM and back at every step",
    left=("Q", "dO", "O", "lse", "D", "dQ"),
    each_kernel_anew=True,
    recorded=("text", "gpt2"),
)
Q_OUTER_ENTRY = _entry(
    (Q_OUTER,),
    "q_outer",
    "query-outer",
    label="Backward, query outer",
    idea="dK and dV travel to HBM and back at every step",
    left=("Q", "dO", "O", "lse", "dQ"),
    recorded=("text", "gpt2", "tiny", "ragged"),
)
ENTRIES = (KV_OUTER_ENTRY, Q_OUTER_ENTRY)
