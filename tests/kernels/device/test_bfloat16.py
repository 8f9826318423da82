"""bfloat16 in Triton's interpreter: every operation as a GPU rounds it."""

import numpy as np
import pytest
import torch

from kernels.device.bfloat16 import make_bfloat16_exact, narrow, widen
from kernels.device.runtime import DEVICE

import triton
import triton.language as tl


def test_numbers_are_rounded_to_nearest_even_as_torch_rounds_them():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(4096).astype(np.float32) * np.float32(10.0) ** rng.integers(-38, 38, 4096)
    values[:6] = [1 + 2**-8, 1 + 3 * 2**-8, np.inf, -np.inf, 3.4e38, 1e-40]
    expected = torch.from_numpy(values).bfloat16()
    assert np.array_equal(widen(narrow(values)), expected.float().numpy())
    assert np.isnan(widen(narrow(np.array([np.nan], np.float32)))).all()


@triton.jit
def _operations(a, b, out, N: tl.constexpr):
    rows, columns = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + rows * N + columns)
    y = tl.load(b + rows * N + columns)
    product = tl.dot(x, tl.trans(y))
    mixed = tl.where(x > y, x * y + 1.5, x - y).to(tl.float32)
    sums = tl.sum(x, axis=1).to(tl.float32)[:, None] + tl.max(y, axis=1).to(tl.float32)[:, None]
    tl.store(out + rows * N + columns, (product + mixed + sums).to(out.dtype.element_ty))


@pytest.mark.skipif(DEVICE != "cpu", reason="a GPU computes bfloat16 itself")
def test_products_sums_and_comparisons_are_those_of_bfloat16():
    make_bfloat16_exact()
    make_bfloat16_exact()  # a second call changes nothing
    x, y = (torch.randn(16, 16, generator=torch.Generator().manual_seed(n)).bfloat16() for n in (0, 1))
    out = torch.empty(16, 16)
    _operations[(1,)](x, y, out, 16)
    product = x.float() @ y.float().T
    mixed = torch.where(x > y, x * y + 1.5, x - y).float()
    sums = x.float().sum(1).bfloat16().float()[:, None] + y.max(1).values.float()[:, None]
    torch.testing.assert_close(out, product + mixed + sums, rtol=0, atol=1e-5)
    rounded = torch.empty(16, 16, dtype=torch.bfloat16)
    _operations[(1,)](x, y, rounded, 16)
    assert torch.equal(rounded, out.bfloat16())
