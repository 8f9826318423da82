"""Row-wise attention, tile by tile in torch: whole rows of S stay on the chip.

First K and then V are streamed past them. Chu, Liu and Lin 2026, algorithm 1 and eq 36: no matrix of size
q_len x kv_len goes to HBM, but the chip must hold block_m whole rows of S. A comment `# [name]` starts a
phase of a tile step (declared in entry.py).
"""

import torch
from torch import Tensor

from kernels.algorithms.row_wise.entry import ENTRY
from kernels.oracle.naive import visible_mask
from kernels.primitives.tilewise import StepLog, Tilewise, tile_rows
from kernels.problem import AttentionProblem


def softmax_of(scores: list[Tensor], m: Tensor) -> tuple[Tensor, Tensor]:
    """P (rows, kv_len) from tiles of scores, and the row sum; 0 in rows without a key."""
    shift = torch.where(m == float("-inf"), 0.0, m)
    p = torch.exp(torch.cat(scores, dim=1) - shift[:, None])
    l = p.sum(dim=1)
    return p * torch.where(l == 0, 0.0, 1 / l)[:, None], l


def _row_wise(
    hbm: StepLog,
    problem: AttentionProblem,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
) -> None:
    """Fill out (batch, q_heads, q_len, head_dim) and lse (batch, q_heads, q_len) query tile by query tile."""
    visible = visible_mask(problem.band, device=query.device)
    for program in hbm.programs():
        _, batch, head, rows = program
        key_head = head // problem.group_size
        # [load Q] (block_m, head_dim)
        q = hbm.read("Q", query[batch, head, rows])
        m = torch.full((len(q),), float("-inf"), device=q.device)
        s: list[Tensor] = []
        # [end]
        for kv_tile in range(problem.kv_tiles):
            hbm.step(0, program, kv_tile)
            keys = tile_rows(kv_tile, problem.block_n)
            # [load K] (block_n, head_dim)
            k = hbm.read("K", key[batch, key_head, keys])
            # [QK^T] (block_m, block_n): stays on the chip
            s.append((q @ k.T * problem.scale).masked_fill(~visible[rows, keys], float("-inf")))
            # [row max]
            m = torch.maximum(m, s[-1].amax(dim=1))
            # [end]
            hbm.rows(row_max=m)
        # [softmax] (block_m, kv_len): P takes the place of S
        p, l = softmax_of(s, m)
        o = torch.zeros(q.shape, device=q.device)
        # [end]
        for kv_tile in range(problem.kv_tiles):
            hbm.step(1, program, kv_tile)
            keys = tile_rows(kv_tile, problem.block_n)
            # [load V] (block_n, head_dim)
            v = hbm.read("V", value[batch, key_head, keys])
            # [PV] (block_m, head_dim)
            o = o + p[:, keys].to(query.dtype).float() @ v
            # [end]
            hbm.rows(row_max=m, row_sum=l, row_share=p[:, keys].sum(dim=1), acc=o)
        # [store O]
        hbm.write("O", out[batch, head, rows], o)
        # [end]
        lse[batch, head, rows] = m + torch.log(l)


RUNNER = Tilewise(ENTRY, _row_wise)
