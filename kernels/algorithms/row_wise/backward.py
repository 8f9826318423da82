"""Row-wise backward, tile by tile in torch: whole rows of P and dP stay on the chip.

Chu, Liu and Lin 2026, algorithm 5 by blocks of rows, eq 58 to 66. A row of P needs all its scores before dQ
and dK need K, so K is read twice. The sums dK and dV wait in HBM in float32, and torch rounds them at the
end. A comment `# [name]` starts a phase of a tile step (declared in entry.py).
"""

import torch
from torch import Tensor

from kernels.algorithms.row_wise.entry import BACKWARD
from kernels.algorithms.row_wise.run import RUNNER, softmax_of
from kernels.device.runtime import DEVICE
from kernels.oracle.naive import visible_mask
from kernels.primitives.tilewise import StepLog, tile_rows
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace import Trace


def _row_wise_backward(
    hbm: StepLog, problem: AttentionProblem, given: tuple[Tensor, ...], sums: tuple[Tensor, ...], lse: Tensor
) -> None:
    """Of Q, K, V, O and dO: fill dQ, add to dK and dV in float32, and fill lse."""
    query, key, value, out, d_out = given
    d_query, d_key, d_value = sums
    visible = visible_mask(problem.band, device=query.device)
    for program in hbm.programs():
        _, batch, head, rows = program
        key_head = head // problem.group_size
        # [load Q, O, dO] (block_m, head_dim)
        q, o = hbm.read("Q", query[batch, head, rows]), hbm.read("O", out[batch, head, rows])
        d_o = hbm.read("dO", d_out[batch, head, rows])
        delta = (o * d_o).sum(dim=1, keepdim=True)
        m = torch.full((len(q),), float("-inf"), device=q.device)
        s: list[Tensor] = []
        d_p: list[Tensor] = []
        # [end]
        for kv_tile in range(problem.kv_tiles):
            hbm.step(0, program, kv_tile)
            keys = tile_rows(kv_tile, problem.block_n)
            # [load K, V] (block_n, head_dim)
            k, v = hbm.read("K", key[batch, key_head, keys]), hbm.read("V", value[batch, key_head, keys])
            # [QK^T] (block_m, block_n): stays on the chip
            s.append((q @ k.T * problem.scale).masked_fill(~visible[rows, keys], float("-inf")))
            # [row max]
            m = torch.maximum(m, s[-1].amax(dim=1))
            # [dP] (block_m, block_n): stays on the chip
            d_p.append(d_o @ v.T)
            # [end]
            hbm.rows(row_max=m)
        # [softmax, dS] (block_m, kv_len): P and dS take the places of S and dP
        p, l = softmax_of(s, m)
        d_s = p * (torch.cat(d_p, dim=1) - delta) * problem.scale
        d_q = torch.zeros(q.shape, device=q.device)
        # [end]
        for kv_tile in range(problem.kv_tiles):
            hbm.step(1, program, kv_tile)
            keys = tile_rows(kv_tile, problem.block_n)
            sum_dk, sum_dv = (each[batch, key_head, keys] for each in (d_key, d_value))
            # [load K, dK, dV] (block_n, head_dim)
            k = hbm.read("K", key[batch, key_head, keys])
            dk, dv = hbm.read("dK", sum_dk), hbm.read("dV", sum_dv)
            # [dV]
            dv = dv + p[:, keys].T @ d_o
            # [dK]
            dk = dk + d_s[:, keys].T @ q
            # [dQ] (block_m, head_dim)
            d_q = d_q + d_s[:, keys] @ k
            # [store dK, dV]
            hbm.write("dK", sum_dk, dk)
            hbm.write("dV", sum_dv, dv)
            # [end]
            hbm.rows(row_max=m, row_sum=l, row_share=p[:, keys].sum(dim=1), acc=d_q)
        # [store dQ]
        hbm.write("dQ", d_query[batch, head, rows], d_q)
        # [end]
        lse[batch, head, rows] = m + torch.log(l)


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the steps on the problem's inputs, dO and tiles. Raises InvalidProblem if there are too many."""
    hbm, inputs = StepLog(BACKWARD, problem), make_inputs(problem, DEVICE)
    out, d_out = RUNNER.forward(problem, *inputs)[0], make_d_output(problem, DEVICE)
    d_query, lse = torch.empty_like(out), torch.empty(problem.q_shape[:3], device=out.device)
    d_key, d_value = (torch.zeros(each.shape, device=out.device) for each in inputs[1:])
    _row_wise_backward(hbm, problem, (*inputs, out, d_out), (d_query, d_key, d_value), lse)
    rounded = {"d_key": d_key.to(out.dtype), "d_value": d_value.to(out.dtype)}
    return hbm.trace(out, lse, d_query=d_query, **rounded)
