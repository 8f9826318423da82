"""Attention in two passes, tile by tile in torch: every tile of scores is computed twice, and never stored.

The first pass finds the max and the sum of each row, so that the second one need not rescale O.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.algorithms.two_pass.entry import ENTRY
from kernels.device.runtime import DEVICE
from kernels.oracle.naive import visible_mask
from kernels.primitives.tilewise import StepLog, tile_rows
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.trace import Trace


def _scores(problem: AttentionProblem, q: Tensor, k: Tensor, visible: Tensor) -> Tensor:
    return (q @ k.T * problem.scale).masked_fill(~visible, float("-inf"))


def _weights(s: Tensor, m: Tensor, l: Tensor) -> Tensor:
    """A tile of P; a row that sees no key has l = 0, and weighs nothing."""
    return torch.exp(s - _shift(m)[:, None]) * torch.where(l == 0, 0.0, 1 / l)[:, None]


def _shift(m: Tensor) -> Tensor:
    return torch.where(m == float("-inf"), 0.0, m)


def _two_pass(
    problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor
) -> tuple[StepLog, Tensor, Tensor]:
    """The steps, O (batch, q_heads, q_len, head_dim) and lse (batch, q_heads, q_len)."""
    log, visible = StepLog(ENTRY, problem), visible_mask(problem.band, device=query.device)
    out, lse = torch.empty_like(query), torch.empty(problem.q_shape[:3], device=query.device)
    for program in log.programs():
        _, batch, head, rows = program
        # [load Q] (block_m, head_dim)
        q = log.read("Q", query[batch, head, rows])
        m = torch.full((len(q),), float("-inf"), device=q.device)
        l = torch.zeros(len(q), device=q.device)
        # [end]
        for kv_tile in range(problem.kv_tiles):
            log.step(0, program, kv_tile)
            keys = tile_rows(kv_tile, problem.block_n)
            # [load K] (block_n, head_dim)
            k = log.read("K", key[batch, head // problem.group_size, keys])
            # [scores] (block_m, block_n)
            s = _scores(problem, q, k, visible[rows, keys])
            # [max and sum]
            before, m = m, torch.maximum(m, s.amax(dim=1))
            l = l * torch.exp(before - _shift(m)) + torch.exp(s - _shift(m)[:, None]).sum(dim=1)
            # [end]
            log.rows(row_max=m, row_sum=l)
        # [empty O]
        o = torch.zeros(q.shape, device=q.device)
        # [end]
        for kv_tile in range(problem.kv_tiles):
            log.step(1, program, kv_tile)
            keys = tile_rows(kv_tile, problem.block_n)
            # [load K again] (block_n, head_dim)
            k = log.read("K", key[batch, head // problem.group_size, keys])
            # [scores again] (block_m, block_n)
            s = _scores(problem, q, k, visible[rows, keys])
            # [weights] (block_m, block_n)
            p = _weights(s, m, l)
            # [load V] (block_n, head_dim)
            v = log.read("V", value[batch, head // problem.group_size, keys])
            # [weights · V] (block_m, head_dim)
            o = o + p.to(query.dtype).float() @ v
            # [end]
            log.rows(row_share=p.sum(dim=1), acc=o)
        # [store O, lse]
        log.write("O", out[batch, head, rows], o)
        log.write("lse", lse[batch, head, rows], m + torch.log(l))
        # [end]
    return log, out, lse


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the steps on the problem's own inputs and tiles. Raises InvalidProblem for too many steps."""
    log, out, lse = _two_pass(problem, *make_inputs(problem, DEVICE))
    return log.trace(out, lse)


def forward(problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """O and lse with the problem's mask and tiles."""
    return _two_pass(problem, query, key, value)[1:]
