"""Runs decoding over pages: traced on a problem's own inputs, or on given tensors for a check."""

from typing import Any

from torch import Tensor

from kernels.algorithms.paged.entry import ENTRY
from kernels.algorithms.paged.pool import pools_of
from kernels.algorithms.split_kv.run import Decoding
from kernels.problem import AttentionProblem


def paged(problem: AttentionProblem, key: Tensor, value: Tensor) -> dict[str, Any]:
    """Key and value in pages of block_n rows, and their block table. Nothing else of the pools is read."""
    pools = pools_of(problem, key, value)
    whole = {"key": pools.key.transpose(1, 2), "value": pools.value.transpose(1, 2)}
    return whole | {"table": pools.table}


RUNNER = Decoding(ENTRY, paged)
