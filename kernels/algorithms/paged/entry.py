"""What is known of decoding over keys that lie in pages. Kwon et al. 2023 (PagedAttention, vLLM)."""

from dataclasses import replace

from kernels.algorithms.split_kv.entry import COMBINE, SPLIT_PAGED
from kernels.algorithms.split_kv.entry import ENTRY as SPLIT_KV
from kernels.problem import AttentionProblem
from kernels.trace.algorithm import BLOCK_TABLE, NOT_TIMED


def pool_pages(problem: AttentionProblem) -> int:
    """Pages of the pools of K and V: those of the problem's sequences, and half as many of others."""
    return -(-3 * problem.batch * problem.kv_tiles // 2)


ENTRY = replace(
    SPLIT_KV,
    name="paged",
    label="Paged keys",
    idea="split-KV decoding whose key tiles are pages of a pool, found through a block table",
    kernels=(SPLIT_PAGED, COMBINE),
    runner="kernels.algorithms.paged.run:RUNNER",
    rank=4,
    top=(BLOCK_TABLE, "K", "V", "partial O"),
    pool_pages=pool_pages,
    timed_as=NOT_TIMED,
    checked="Paged keys, forward",
)
