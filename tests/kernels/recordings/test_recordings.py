"""The shipped recordings: every preset is there, whole, right, and says where it is from."""

import pytest

from kernels.problem.presets import FIRST_PRESET, PRESETS
from kernels.recordings import FOLDER, recorded_measurement, recorded_run
from kernels.trace.trace import ALGORITHMS
from kernels.traffic.requested import flash2_requested_bytes

RECORDED = [(name, algorithm) for name, preset in PRESETS.items() for algorithm in preset.recorded]


@pytest.mark.parametrize(("preset", "algorithm"), RECORDED, ids=["-".join(pair) for pair in RECORDED])
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
    if ALGORITHMS[algorithm].triton:
        assert (trace.end_ns > trace.start_ns).all()
        assert (trace.sm < trace.device.sm_count).all()
    if algorithm == "flash2":
        assert trace.total_bytes == flash2_requested_bytes(problem)


def test_every_algorithm_is_recorded_for_some_preset():
    assert {algorithm for _, algorithm in RECORDED} == set(ALGORITHMS)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_recorded_time_and_memory(preset):
    measurement = recorded_measurement(PRESETS[preset].problem)
    assert measurement.result("naive").timing.median_ms > 0
    assert measurement.result("ours").timing.median_ms > 0
    assert measurement.result("ours", "backward").timing.median_ms > 0
    assert measurement.device.backend == "cuda"


def test_other_problems_have_no_recording():
    problem = PRESETS[FIRST_PRESET].problem.with_(seed=77)
    assert recorded_run(problem, "flash2") is None
    assert recorded_measurement(problem) is None


def test_recordings_stay_small():
    assert sum(file.stat().st_size for file in FOLDER.iterdir() if file.is_file()) < 5e6
