"""Row-wise attention, tile by tile in torch: a block of rows of S stays on the chip, whole, while K and then V are streamed past it.

Chu, Liu and Lin 2026, algorithm 1 and eq 36: nothing of size q_len x kv_len goes to HBM, but the chip must hold block_m whole rows
of S. There is no Triton kernel of ours for it; bytes are counted from the slices that the steps touch. `# [name]` marks phases.
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

KERNELS = ("row-wise, scores", "row-wise, values")
TENSORS = ("Q", "K", "V", "O")


def _row_wise(
    log: StepLog,
    problem: AttentionProblem,
    inputs: tuple[torch.Tensor, ...],
    visible: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """out (batch, q_heads, q_len, head_dim) and lse (batch, q_heads, q_len), one block of rows after the other."""
    query, key, value = inputs
    for program, batch, head, _, rows in log.programs():
        kv_head = head * problem.kv_heads // problem.q_heads
        # [load Q] (block_m, head_dim)
        q = log.read("Q", query[batch, head, rows])
        m = torch.full((len(q),), float("-inf"), device=q.device)
        s = []
        # [end]
        for kv_tile in range(problem.kv_tiles):
            log.step(0, program, kv_tile)
            keys = tile(kv_tile, problem.block_n)
            # [load K] (block_n, head_dim)
            k = log.read("K", key[batch, kv_head, keys])
            # [QK^T] (block_m, block_n): stays on the chip
            s.append((q @ k.T * problem.scale).masked_fill(~visible[rows, keys], float("-inf")))
            # [row max]
            m = torch.maximum(m, s[-1].amax(dim=1))
            # [end]
            log.rows(row_max=m)
        # [softmax] (block_m, kv_len): P takes the place of S
        shift = torch.where(m == float("-inf"), 0.0, m)
        p = torch.exp(torch.cat(s, dim=1) - shift[:, None])
        l = p.sum(dim=1)
        p = p * torch.where(l == 0, 0.0, 1 / l)[:, None]
        o = torch.zeros(q.shape, device=q.device)
        # [end]
        for kv_tile in range(problem.kv_tiles):
            log.step(1, program, kv_tile)
            keys = tile(kv_tile, problem.block_n)
            # [load V] (block_n, head_dim)
            v = log.read("V", value[batch, kv_head, keys])
            # [PV] (block_m, head_dim)
            o = o + p[:, keys].to(query.dtype).float() @ v
            # [end]
            log.rows(row_max=m, row_sum=l, row_share=p[:, keys].sum(dim=1), acc=o)
        # [store O]
        log.write("O", out[batch, head, rows], o)
        # [end]
        lse[batch, head, rows] = m + torch.log(l)


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the steps on the problem's own inputs and tiles. Raises InvalidProblem for too many steps."""
    programs = problem.batch * problem.q_heads * problem.q_tiles
    log = StepLog(problem, KERNELS, TENSORS, len(KERNELS) * programs * problem.kv_tiles)
    inputs = make_inputs(problem, DEVICE)
    out, lse = torch.empty_like(inputs[0]), torch.empty(problem.q_shape[:3], device=DEVICE)
    visible = visible_mask(problem.q_len, problem.kv_len, *band(problem), device=DEVICE)
    _row_wise(log, problem, inputs, visible, out, lse)
    return log.trace("row_wise", out, lse)
