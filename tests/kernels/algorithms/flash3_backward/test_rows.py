"""The order of the sum of dQ, and the kernel that brings it into the order of a tensor."""

import itertools
from dataclasses import replace

import pytest
import torch

from kernels.algorithms.flash3_backward.rows import _attn_bwd_hopper_finish
from kernels.device.runtime import DEVICE
from kernels.primitives.launch import TileConfig, fixed_of, strides_of

BLOCK_M = 64


def accumulator(thread, register):
    """(row, column) of a register of the accumulator of wgmma.m64n64k16, as the PTX manual draws it."""
    warp, lane = divmod(thread, 32)
    pair, of_pair = divmod(register, 2)
    columns, half = divmod(pair, 2)
    return warp * 16 + lane // 4 + 8 * half, columns * 8 + lane % 4 * 2 + of_pair


@pytest.mark.parametrize("head_dim", [40, 64, 96, 128])
def test_dq_comes_out_in_the_order_of_its_tensor(head_dim):
    block_d, heads, q_len, padded = 64 if head_dim <= 64 else 128, 2, 100, 128
    expected = torch.randn(heads, padded, block_d, device=DEVICE)
    places = torch.empty(64, block_d, dtype=torch.long)
    for part, thread, register in itertools.product(range(block_d // 64), range(128), range(32)):
        row, column = accumulator(thread, register)
        places[row, part * 64 + column] = part * 4096 + register // 4 * 512 + thread * 4 + register % 4
    places = places.flatten().to(DEVICE)
    dq_sum = torch.empty(heads, padded // 64, 64 * block_d, device=DEVICE)
    dq_sum[:, :, places] = expected.reshape(heads, padded // 64, 64 * block_d)
    d_query = torch.empty(1, heads, q_len, head_dim, device=DEVICE)
    fixed = replace(fixed_of(d_query, TileConfig(BLOCK_M, BLOCK_M), None), BLOCK_D=block_d)
    _attn_bwd_hopper_finish[(padded // BLOCK_M, heads)](
        dq_sum,
        d_query,
        strides=strides_of(dq=d_query),
        q_heads=heads,
        q_len=q_len,
        padded_rows=padded,
        scale=0.5,
        trace=None,
        FIXED=fixed,
    )
    assert torch.equal(d_query[0], 0.5 * expected[:, :q_len, :head_dim])
