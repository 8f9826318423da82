"""Runs decoding over pages: traced on a problem's own inputs, or on given tensors for a check.

K and V are put into pools of pages, found through a block table. They lie as in vLLM's KV cache: Kwon et al.
2023, section 4.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from kernels.algorithms.paged.entry import ENTRY, pool_pages
from kernels.algorithms.split_kv.run import Decoding
from kernels.problem import AttentionProblem


class Pools(NamedTuple):
    """Keys and values in pages."""

    key: torch.Tensor
    """(pages, page_size, kv_heads, head_dim)"""
    value: torch.Tensor
    """Of the same shape."""
    table: torch.Tensor
    """int32 (batch, pages of a sequence): the page of each key tile. Key j of sequence b is row j % page_size
    of page table[b, j // page_size]."""


def block_table(problem: AttentionProblem) -> np.ndarray:
    """int32 (batch, key tiles): pages of the pool in an order drawn from problem.seed, each at most once."""
    pages = np.random.default_rng((problem.seed, 2)).permutation(pool_pages(problem))
    return pages[: problem.batch * problem.kv_tiles].reshape(problem.batch, -1).astype(np.int32)


def pools_of(problem: AttentionProblem, key: torch.Tensor, value: torch.Tensor) -> Pools:
    """The pools of key and value (batch, kv_heads, kv_len, head_dim), with pages of block_n rows.

    NaN is in all pages of other sequences, and past the end of a sequence in its last page: a kernel that
    reads there what it should not gives NaN.
    """
    table = torch.from_numpy(block_table(problem)).to(key.device)
    rows, count = problem.block_n, problem.kv_tiles

    def pool_of(tensor: torch.Tensor) -> torch.Tensor:
        _, heads, length, head_dim = tensor.shape
        pool = tensor.new_full((pool_pages(problem), rows, heads, head_dim), float("nan"))
        whole = F.pad(tensor, (0, 0, 0, count * rows - length), value=float("nan"))
        pages = whole.unflatten(2, (count, rows)).permute(0, 2, 3, 1, 4)
        pool[table.flatten().long()] = pages.flatten(0, 1)
        return pool

    return Pools(pool_of(key), pool_of(value), table)


def paged(problem: AttentionProblem, key: torch.Tensor, value: torch.Tensor) -> dict[str, Any]:
    """Key and value in pages of block_n rows, and their block table. Nothing else of the pools is read."""
    pools = pools_of(problem, key, value)
    whole = {"key": pools.key.transpose(1, 2), "value": pools.value.transpose(1, 2)}
    return whole | {"table": pools.table}


RUNNER = Decoding(ENTRY, paged)
