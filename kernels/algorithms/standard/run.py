"""Standard attention, tile by tile in torch: S = Q K^T, P = softmax(S) and O = P V in turn, S and P in HBM.

Dao et al. 2022, algorithm 0. The steps are those of three plain kernels. The mask saves no work: S is
computed whole. A comment `# [name]` starts a phase of a tile step (declared in entry.py).
"""

import torch
from torch import Tensor

from kernels.algorithms.standard.entry import ENTRY
from kernels.oracle.naive import changed_scores, per_head, whole_mask
from kernels.primitives.tilewise import StepLog, Tilewise, tile_rows
from kernels.problem import AttentionProblem


def _scores(
    hbm: StepLog, problem: AttentionProblem, query: Tensor, key: Tensor, scores: Tensor, visible: Tensor
) -> None:
    """Fill scores (batch, q_heads, q_len, kv_len), which lie in HBM in the type of the inputs."""
    for program in hbm.programs():
        _, batch, head, rows = program
        k_head = key[batch, head // problem.group_size]
        # [load Q] (block_m, head_dim)
        q = hbm.read("Q", query[batch, head, rows])
        # [end]
        for kv_tile in range(problem.kv_tiles):
            hbm.step(0, program, kv_tile)
            keys = tile_rows(kv_tile, problem.block_n)
            # [load K] (block_n, head_dim)
            k = hbm.read("K", k_head[keys])
            # [QK^T] (block_m, block_n)
            s = q @ k.T * problem.scale
            hbm.show({"QK^T": s / problem.scale})
            # [mask]
            s, _ = changed_scores(s, problem.rule, rows.start, head, keys.start)
            s = s.masked_fill(~visible[batch, head, rows, keys], float("-inf"))
            # [store S]
            hbm.write("S", scores[batch, head, rows, keys], s)
            # [end]
            hbm.show({"Q": q, "K": k, "S": s / problem.scale})


def _softmax(hbm: StepLog, problem: AttentionProblem, scores: Tensor, weights: Tensor, lse: Tensor) -> None:
    """Fill weights (batch, q_heads, q_len, kv_len) in HBM; the rows of a query tile stay on the chip."""
    for program in hbm.programs():
        _, batch, head, rows = program
        count = len(lse[batch, head, rows])
        m = torch.full((count,), float("-inf"), device=scores.device)
        sink = problem.pattern and problem.pattern.sinks
        if sink:  # a key that has a score and no value
            m = m.clamp(min=float(per_head(sink, m, head)))
        s: list[Tensor] = []
        for kv_tile in range(problem.kv_tiles):
            hbm.step(1, program, kv_tile)
            # [load S] (block_m, block_n)
            s.append(hbm.read("S", scores[batch, head, rows, tile_rows(kv_tile, problem.block_n)]))
            # [row max]
            m = torch.maximum(m, s[-1].amax(dim=1))
            # [end]
            hbm.rows(row_max=m)
            hbm.show({"S": s[-1] / problem.scale})
        # [row sum]
        shift = torch.where(m == float("-inf"), 0.0, m)
        l = torch.cat([torch.exp(tile - shift[:, None]) for tile in s], dim=1).sum(dim=1)
        if sink:
            l = l + torch.exp(per_head(sink, m, head) - shift)
        lse[batch, head, rows] = m + torch.log(l)
        # [end]
        for kv_tile in range(problem.kv_tiles):
            hbm.step(2, program, kv_tile)
            # [exponentials] (block_m, block_n)
            p = torch.exp(s[kv_tile] - shift[:, None]) * torch.where(l == 0, 0.0, 1 / l)[:, None]
            # [store P]
            hbm.write("P", weights[batch, head, rows, tile_rows(kv_tile, problem.block_n)], p)
            # [end]
            hbm.rows(row_max=m, row_sum=l, row_share=p.sum(dim=1))
            hbm.show({"S": s[kv_tile] / problem.scale, "P": p})


def _product(hbm: StepLog, problem: AttentionProblem, weights: Tensor, value: Tensor, out: Tensor) -> None:
    """Fill out (batch, q_heads, q_len, head_dim)."""
    for program in hbm.programs():
        _, batch, head, rows = program
        v_head = value[batch, head // problem.group_size]
        o = torch.zeros(out[batch, head, rows].shape, device=out.device)
        for kv_tile in range(problem.kv_tiles):
            hbm.step(3, program, kv_tile)
            keys = tile_rows(kv_tile, problem.block_n)
            # [load P] (block_m, block_n)
            p = hbm.read("P", weights[batch, head, rows, keys])
            # [load V] (block_n, head_dim)
            v = hbm.read("V", v_head[keys])
            # [PV] (block_m, head_dim)
            o = o + p @ v
            # [end]
            hbm.rows(acc=o, row_share=p.sum(dim=1))
            hbm.show({"P": p, "V": v})
        # [store O]
        hbm.write("O", out[batch, head, rows], o)
        # [end]


def _standard(
    hbm: StepLog,
    problem: AttentionProblem,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
) -> None:
    square = (*problem.q_shape[:3], problem.kv_len)
    scores, weights = (query.new_empty(square) for _ in range(2))
    _scores(hbm, problem, query, key, scores, whole_mask(problem.rule, query.device).expand(square))
    _softmax(hbm, problem, scores, weights, lse)
    _product(hbm, problem, weights, value, out)


RUNNER = Tilewise(ENTRY, _standard)
