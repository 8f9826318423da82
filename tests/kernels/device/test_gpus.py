"""Facts about GPUs."""

import pytest

from kernels.device.gpus import GPUS, gpu_named


def test_a_gpu_is_found_by_the_name_its_driver_reports():
    assert gpu_named("NVIDIA H100 80GB HBM3") == GPUS["H100"]
    assert gpu_named("AMD EPYC") is None
    assert GPUS["A100"].balance == pytest.approx(153, abs=1)
