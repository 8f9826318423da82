"""Tests of a kernel of your own: copy this file, name your function, run `pytest examples/test_my_kernel.py`.

Each case is a check as `python -m kernels.check` makes it, by the rule of FlashAttention's own tests. If one
fails, its report is shown, with the cause if it is known. Needs no GPU. Without a shape, the battery is run.
"""

from pathlib import Path

import pytest

from kernels.check.command import main

KERNEL = f"{Path(__file__).with_name('buggy_kernel.py')}:attention_fixed"
CASES = [
    "--shapes 70x70 --head-dim 32 --mask full,causal --forward",
    "--shapes 33x80 --head-dim 32 --inputs growing_max --forward",
]


@pytest.mark.parametrize("case", CASES)
def test_my_kernel_is_right(case):
    assert main(["--kernel", KERNEL, *case.split()]) == 0
