"""Standard attention, tile by tile in torch: S = Q K^T, P = softmax(S) and O = P V one after the other, S and P in HBM.

Dao et al. 2022 (FlashAttention), algorithm 0. There is no Triton kernel of ours for it; the steps are those of three plain
kernels, and bytes are counted from the slices they touch. The mask saves nothing: S is computed whole. `# [name]` marks phases.
"""

from __future__ import annotations

import torch

from kernels.oracle.reference import visible_mask
from kernels.primitives.recorder import DEVICE
from kernels.primitives.tilewise import StepLog, tile
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.problem.tiles import band
from kernels.trace.trace import Trace

KERNELS = ("scores", "softmax, read S", "softmax, write P", "product")
TENSORS = ("Q", "K", "S", "P", "V", "O")


def _scores(
    log: StepLog,
    problem: AttentionProblem,
    query: torch.Tensor,
    key: torch.Tensor,
    scores: torch.Tensor,
    visible: torch.Tensor,
) -> None:
    """scores (batch, q_heads, q_len, kv_len), written to HBM in the type of the inputs."""
    for program, batch, head, _, rows in log.programs():
        k_head = key[batch, head * problem.kv_heads // problem.q_heads]
        # [load Q] (block_m, head_dim)
        q = log.read("Q", query[batch, head, rows])
        # [end]
        for kv_tile in range(problem.kv_tiles):
            log.step(0, program, kv_tile)
            keys = tile(kv_tile, problem.block_n)
            # [load K] (block_n, head_dim)
            k = log.read("K", k_head[keys])
            # [QK^T] (block_m, block_n)
            s = q @ k.T * problem.scale
            # [mask]
            s = s.masked_fill(~visible[rows, keys], float("-inf"))
            # [store S]
            log.write("S", scores[batch, head, rows, keys], s)
            # [end]


def _softmax(
    log: StepLog, problem: AttentionProblem, scores: torch.Tensor, weights: torch.Tensor, lse: torch.Tensor
) -> None:
    """weights (batch, q_heads, q_len, kv_len), written to HBM; the rows of one query tile lie on the chip meanwhile."""
    for program, batch, head, _, rows in log.programs():
        count = len(lse[batch, head, rows])
        m = torch.full((count,), float("-inf"), device=scores.device)
        s = []
        for kv_tile in range(problem.kv_tiles):
            log.step(1, program, kv_tile)
            # [load S] (block_m, block_n)
            s.append(log.read("S", scores[batch, head, rows, tile(kv_tile, problem.block_n)]))
            # [row max]
            m = torch.maximum(m, s[-1].amax(dim=1))
            # [end]
            log.rows(row_max=m)
        # [row sum]
        shift = torch.where(m == float("-inf"), 0.0, m)
        l = torch.cat([torch.exp(part - shift[:, None]) for part in s], dim=1).sum(dim=1)
        lse[batch, head, rows] = m + torch.log(l)
        # [end]
        for kv_tile in range(problem.kv_tiles):
            log.step(2, program, kv_tile)
            # [exponentials] (block_m, block_n)
            p = torch.exp(s[kv_tile] - shift[:, None]) * torch.where(l == 0, 0.0, 1 / l)[:, None]
            # [store P]
            log.write("P", weights[batch, head, rows, tile(kv_tile, problem.block_n)], p)
            # [end]
            log.rows(row_max=m, row_sum=l, row_share=p.sum(dim=1))


def _product(
    log: StepLog, problem: AttentionProblem, weights: torch.Tensor, value: torch.Tensor, out: torch.Tensor
) -> None:
    """out (batch, q_heads, q_len, head_dim)."""
    for program, batch, head, _, rows in log.programs():
        v_head = value[batch, head * problem.kv_heads // problem.q_heads]
        o = torch.zeros(out[batch, head, rows].shape, device=out.device)
        for kv_tile in range(problem.kv_tiles):
            log.step(3, program, kv_tile)
            keys = tile(kv_tile, problem.block_n)
            # [load P] (block_m, block_n)
            p = log.read("P", weights[batch, head, rows, keys])
            # [load V] (block_n, head_dim)
            v = log.read("V", v_head[keys])
            # [PV] (block_m, head_dim)
            o = o + p @ v
            # [end]
            log.rows(acc=o, row_share=p.sum(dim=1))
        # [store O]
        log.write("O", out[batch, head, rows], o)
        # [end]


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the three kernels' steps on the problem's own inputs and tiles. Raises InvalidProblem for too many steps."""
    programs = problem.batch * problem.q_heads * problem.q_tiles
    log = StepLog(problem, KERNELS, TENSORS, len(KERNELS) * programs * problem.kv_tiles)
    query, key, value = make_inputs(problem, DEVICE)
    square = (*problem.q_shape[:3], problem.kv_len)
    scores, weights = (torch.empty(square, dtype=query.dtype, device=DEVICE) for _ in range(2))
    out, lse = torch.empty_like(query), torch.empty(problem.q_shape[:3], device=DEVICE)
    visible = visible_mask(problem.q_len, problem.kv_len, *band(problem), device=DEVICE)
    _scores(log, problem, query, key, scores, visible)
    _softmax(log, problem, scores, weights, lse)
    _product(log, problem, weights, value, out)
    return log.trace("standard", out, lse)
