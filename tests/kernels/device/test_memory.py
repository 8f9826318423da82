"""Memory of the machine and of the process."""

import sys

import numpy as np
import psutil
import pytest

from kernels.device.memory import available_memory_bytes, process_data_bytes


def test_available_memory_is_part_of_the_machine():
    assert 0 < available_memory_bytes() <= psutil.virtual_memory().total


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this number")
def test_allocated_memory_counts_as_data():
    before = process_data_bytes()
    array = np.ones(64 << 20, np.uint8)
    assert process_data_bytes() - before >= 0.9 * array.nbytes
