"""The shipped recordings: every preset is there, whole, right, and says where it is from."""

import numpy as np
import pytest

from kernels.presets import FIRST_PRESET, PRESETS
from kernels.recordings import FOLDER, recorded_measurement, recorded_run, recording_command
from kernels.trace import ALGORITHMS
from kernels.traffic import flash_requested_bytes


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_recorded_on_a_gpu(preset, algorithm):
    problem = PRESETS[preset].problem
    recording = recorded_run(problem, algorithm)
    assert recording.report.passes
    trace = recording.trace
    assert trace.problem == problem
    assert trace.device.backend == "cuda"
    assert "NVIDIA" in trace.device.name
    assert trace.device.triton
    assert trace.device.driver
    assert trace.recorded_at[:2] == "20"
    assert (trace.end_ns > trace.start_ns).all()
    assert (trace.sm < trace.device.sm_count).all()
    assert np.isfinite(trace.output_distance[:, 0]).all()
    if algorithm == "flash2":
        assert trace.total_bytes == flash_requested_bytes(problem)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_recorded_time_and_memory(preset):
    measurement = recorded_measurement(PRESETS[preset].problem)
    assert measurement.result("naive").timing.median_ms > 0
    assert measurement.result("flash2").timing.median_ms > 0
    assert measurement.device.backend == "cuda"


def test_other_problems_have_no_recording():
    problem = PRESETS[FIRST_PRESET].problem.with_(seed=77)
    assert recorded_run(problem, "flash2") is None
    assert recorded_measurement(problem) is None


def test_recordings_stay_small_and_name_their_command():
    assert sum(file.stat().st_size for file in FOLDER.glob("*.npz")) < 5e6
    assert recording_command().startswith("python -m kernels.record")
