"""Clocks and throttling as nvidia-smi reports them."""

import pytest

from kernels.device import gpu_state
from kernels.device.gpu_state import clock_words, parse_reading, summarise
from tests.kernels.documents import measurement


def test_throttling_is_read_from_nvidia_smi():
    assert parse_reading("1980, 1980, 412.07, 41, 0x0000000000000004\n") == (1980.0, 1980.0, 412.07, 41.0, 4)
    with pytest.raises(ValueError, match="could not convert"):
        parse_reading("1980, 1980, [N/A], 41, 0x4")
    idle, busy, slow = (
        (345.0, 1980.0, 90.0, 30.0, 1),
        (1980.0, 1980.0, 600.0, 50.0, 0),
        (1700.0, 1980.0, 690.0, 55.0, 0x4 | 0x20),
    )
    state = summarise([idle, busy, slow])
    assert (state.sm_mhz_low, state.sm_mhz_median, state.power_w, state.samples) == (1700, 1840, 690, 2)
    assert state.slowed_by == ("power limit", "temperature")
    assert summarise([idle]) is None


def test_throttling_is_said_in_words():
    words = clock_words([measurement(512), measurement(1024, gpu=None)])
    assert words.startswith("SM clock 1,755 to 1,980 MHz of 1,980, up to 690 W and 51 °C")
    assert words.endswith("Slowed in 1 of 1 points by: power limit.")
    assert clock_words([measurement(512, gpu=None)]) == ""


def test_without_nvidia_smi_nothing_is_read(monkeypatch):
    monkeypatch.setattr(gpu_state.shutil, "which", lambda name: None)
    with gpu_state.watch_gpu(True) as readings:
        pass
    assert readings == []
