"""Facts about GPUs."""

import pytest

from kernels.device.gpus import GPUS


def test_the_balance_of_a_gpu_is_that_of_its_data_sheet():
    """A100: 312 TFLOP/s over 2.04 TB/s."""
    assert GPUS["A100"].balance == pytest.approx(153, abs=1)
