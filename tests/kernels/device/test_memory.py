"""Memory of the machine and of the process."""

import sys

import numpy as np
import pytest

from kernels.device.memory import process_data_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this number")
def test_allocated_memory_counts_as_data():
    before = process_data_bytes()
    array = np.ones(64 << 20, np.uint8)
    assert process_data_bytes() - before >= 0.9 * array.nbytes
