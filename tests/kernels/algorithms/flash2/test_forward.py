"""_attn_fwd by the rule of FlashAttention's tests: some cases in the interpreter, the whole list on a GPU."""

import itertools

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.check.case.cases import TRUSTED_CAUSAL_SHAPES, TRUSTED_SHAPES
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.problem import INPUTS, AttentionProblem
from kernels.problem.inputs import make_inputs
from tests.kernels.helpers import SMALL_SHAPES, assert_forward_right, problem_id, run_forward, tiny

SMALL = [
    tiny(*shape, 32, 16, mask=mask, dtype=dtype, head_dim=head_dim, window_left=9, window_right=4)
    for shape in SMALL_SHAPES
    for mask, dtype, head_dim in (
        ("full", "float16", 64),
        ("causal", "bfloat16", 40),
        ("window", "float32", 17),
    )
]
DISTRIBUTIONS = [tiny(40, 70, 32, 32, mask="causal", head_dim=32, inputs=inputs) for inputs in INPUTS]
BELOW_THE_TENSOR_CORES = [tiny(21, 19, block, block, mask="causal") for block in (4, 8)]
GROUPED = tiny(20, 36, batch=2, q_heads=6, kv_heads=2)


@pytest.mark.parametrize(
    "problem", [*SMALL, *DISTRIBUTIONS, *BELOW_THE_TENSOR_CORES, GROUPED], ids=problem_id
)
def test_forward_is_right(problem, poisoned):
    assert_forward_right(problem, *run_forward(problem))


LAYOUTS = {
    "heads last in memory": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "every second": lambda t: torch.stack([t, t * float("nan")], dim=-1)[..., 0],  # for no descriptor
    "columns far apart": lambda t: t.mT.contiguous().mT,
    "every head the same memory": lambda t: t[:, :1].expand(-1, 2, -1, -1),
}


@pytest.mark.parametrize("change", LAYOUTS.values(), ids=LAYOUTS)
def test_any_strides_without_copies(change, poisoned):
    problem = tiny(24, 24, batch=2, q_heads=2, kv_heads=2)
    strided = [change(tensor) for tensor in make_inputs(problem, DEVICE)]
    assert not any(tensor.is_contiguous() for tensor in strided)
    plain = [tensor.contiguous() for tensor in strided]
    assert all(map(torch.equal, run_forward(problem, strided), run_forward(problem, plain)))


@pytest.mark.parametrize("block_m", [16, 32])
def test_rows_without_a_key_give_zero_and_their_tile_rescales_nothing(block_m, poisoned):
    """The first 32 queries of 48 lie before the first of 16 keys. Their tiles have one entry in the trace."""
    problem = tiny(48, 16, block_m, mask="causal", q_heads=2, kv_heads=2)
    out, lse = run_forward(problem)
    assert not out[:, :, :32].any()
    assert (lse[:, :, :32] == float("-inf")).all()
    assert torch.isfinite(lse[:, :, 32:]).all()
    trace = run_traced(problem, "flash2")
    keyless = np.flatnonzero(trace.kv_tile < 0)
    assert sorted(trace.q_tile[keyless].tolist()) == sorted([*range(32 // block_m)] * 2)
    assert (trace.row_max[keyless] == -np.inf).all()
    assert (trace.row_sum[keyless] == 0).all()
    assert (trace.alpha[keyless] == 1).all()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("where", [0, 1, 2], ids=["query", "key", "value"])
def test_infinities_and_nan_give_what_float64_gives(value, where, poisoned):
    problem = tiny(20, 36)
    inputs = [tensor.abs() for tensor in make_inputs(problem, DEVICE)]
    inputs[where][0, 0, 3] = value
    out, _ = run_forward(problem, inputs)
    exact, _ = attention_by_rows(*inputs, scale=problem.scale, band=problem.band, dtype=torch.float64)
    assert torch.equal(out.isnan(), exact.isnan())
    assert torch.equal(out.isinf(), exact.isinf())


FLASH_ATTENTION_LIST = [
    AttentionProblem(
        q_len=q_len, kv_len=kv_len, head_dim=d, dtype=dtype, mask=mask, batch=2, q_heads=6, kv_heads=kv_heads
    )
    for mask in ("full", "causal")
    for q_len, kv_len in TRUSTED_SHAPES + (TRUSTED_CAUSAL_SHAPES if mask == "causal" else ())
    for d in (16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 256)
    for dtype in ("float16", "bfloat16")
    for kv_heads in ((6, 2, 1) if d == 64 else (6,))
]
IN_FLOAT32 = [
    tiny(300, 333, 64, 32, mask=mask, head_dim=head_dim, dtype="float32")
    for mask in ("full", "causal")
    for head_dim in (16, 40, 64, 128)
]
TILE_SIZES = [
    tiny(200, 328, *blocks, mask="causal", head_dim=64)
    for blocks in itertools.product((4, 16, 32, 64, 128), repeat=2)
]


@pytest.mark.gpu
@pytest.mark.parametrize("problem", [*FLASH_ATTENTION_LIST, *IN_FLOAT32, *TILE_SIZES], ids=problem_id)
def test_on_a_gpu_flash_attentions_own_list_float32_and_every_tile_size_are_right(problem, poisoned):
    assert_forward_right(problem, *run_forward(problem))


def test_tiles_on_the_chip_have_as_many_columns_as_the_kernel_gives_them():
    """A head_dim of 80 is padded to 128, and one of 16 stays."""
    for head_dim, columns in ((80, 128), (16, 16)):
        problem = AttentionProblem(head_dim=head_dim, block_m=64, block_n=32)
        held = {part.name: part.bytes_of(problem) for part in ALGORITHMS["flash2"].kernels[0].parts}
        tiles = {"Q": 64 * columns * 2, "K": 32 * columns * 2, "V": 32 * columns * 2, "O": 64 * columns * 4}
        assert held | tiles == held
