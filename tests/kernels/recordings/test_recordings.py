"""The shipped recordings: complete, right, and each says where it is from.

An entry may name presets that nobody has recorded on a GPU yet; that is not a failure.
"""

import pytest

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.problem.presets import FIRST_PRESET, PRESETS
from kernels.recordings import FOLDER, recorded_measurement, recorded_run

WANTED = [(preset, entry.name) for entry in ALGORITHMS.values() for preset in entry.recorded]


def problem_of(preset, algorithm):
    """A preset's problem as the algorithm runs it."""
    return ALGORITHMS[algorithm].with_own_tiles(PRESETS[preset].problem)


SHIPPED = [pair for pair in WANTED if recorded_run(problem_of(*pair), pair[1])]


@pytest.mark.parametrize(("preset", "algorithm"), SHIPPED, ids=["-".join(pair) for pair in SHIPPED])
def test_a_recording_is_of_its_preset_on_a_gpu_and_right(preset, algorithm):
    problem, entry = problem_of(preset, algorithm), ALGORITHMS[algorithm]
    recording = recorded_run(problem, algorithm)
    assert recording.report.passes
    trace = recording.trace
    assert trace.problem == problem
    assert trace.device.backend == "cuda"
    assert "NVIDIA" in trace.device.name
    assert trace.device.triton
    assert trace.device.driver
    assert trace.recorded_at[:2] == "20"
    if entry.runs_in == "triton":
        assert (trace.end_ns > trace.start_ns).all()
        assert (trace.sm < trace.device.sm_count).all()
    if entry.has_formula:
        assert trace.total_bytes == entry.requested_bytes(problem)


def test_the_first_view_of_the_app_is_recorded():
    assert (FIRST_PRESET, FIRST) in SHIPPED


def test_every_file_is_one_that_an_entry_wants():
    assert {file.stem for file in FOLDER.glob("*.npz")} == {f"{preset}.{name}" for preset, name in SHIPPED}


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
    assert sum(file.stat().st_size for file in FOLDER.iterdir() if file.is_file()) < 8e6
