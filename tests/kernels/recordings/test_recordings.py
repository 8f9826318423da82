"""The shipped recordings: complete, right, and each says where it is from.

An entry may name presets that nobody has recorded on a GPU yet; that is not a failure.
"""

from collections import defaultdict

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.models import model_heads
from kernels.problem import AttentionProblem
from kernels.problem.presets import FIRST_PRESET, PRESETS
from kernels.record import lane_problems
from kernels.recordings import (
    FOLDER,
    LANES_PREFIX,
    RANKS_PREFIX,
    recorded_lanes,
    recorded_measurement,
    recorded_ranks,
    recorded_run,
)
from kernels.trace.lanes import PRODUCT, Lanes
from kernels.traffic.modelled import whole_traffic

WANTED = [(preset, entry.name) for entry in ALGORITHMS.values() for preset in entry.recorded]


HEADS = model_heads()


def problem_of(name, algorithm):
    """The problem of a preset or of a model's head, as the algorithm runs it."""
    return HEADS.get(name) or ALGORITHMS[algorithm].with_own_tiles(PRESETS[name].problem)


WANTED += [(head, FIRST) for head in HEADS]
SHIPPED = [pair for pair in WANTED if (FOLDER / "{}.{}.npz".format(*pair)).exists()]


@pytest.mark.parametrize(("preset", "algorithm"), SHIPPED, ids=["-".join(pair) for pair in SHIPPED])
def test_a_recording_is_of_its_preset_on_a_gpu_and_right(preset, algorithm):
    problem, entry = problem_of(preset, algorithm), ALGORITHMS[algorithm]
    recording = recorded_run(problem, algorithm)
    assert recording.report.passes
    trace = recording.trace
    assert trace.problem == problem
    assert (trace.device.backend, trace.recorded_at[:2]) == ("cuda", "20")
    assert "NVIDIA" in trace.device.name
    assert all((trace.device.triton, trace.device.driver))
    if entry.runs_in == "triton" and not trace.sample:
        assert (trace.end_ns > trace.start_ns).all()
        assert (trace.sm < trace.device.sm_count).all()
    if entry.has_formula:
        whole = whole_traffic(trace, entry)
        assert (whole.total, whole.agrees) in [
            (entry.requested_bytes(problem), agrees) for agrees in (None, True)
        ]


def test_every_file_is_one_that_an_entry_wants():
    lanes = set(FOLDER.glob(f"{LANES_PREFIX}*.npz"))
    ranks = set(FOLDER.glob(f"{RANKS_PREFIX}*.npz"))
    traces = {file.stem for file in set(FOLDER.glob("*.npz")) - lanes - ranks}
    assert traces == {f"{preset}.{name}" for preset, name in SHIPPED}
    assert (FIRST_PRESET, FIRST) in SHIPPED  # the first view of the app
    assert sum(file.stat().st_size for file in FOLDER.iterdir() if file.is_file()) < 27.5e6


def test_runs_on_several_gpus_are_right_and_do_all_the_work_once():
    for name, trace in recorded_ranks().items():
        assert name == f"{trace.method}.{trace.layout}.{trace.direction}"
        assert all(report.passes for report in trace.reports.values())
        assert (trace.transport, trace.device.backend) == ("nccl", "cuda")
        heads = trace.ranks if trace.method == "all_to_all" else 1  # each rank has a part of them
        assert sum(map(trace.pairs, range(trace.ranks))) == trace.problem.band.visible_pairs * heads
        held = trace.problem.kv_heads * trace.problem.kv_len * trace.problem.head_dim * 2 * 2 // trace.ranks
        if (trace.method, trace.direction) == ("ring", "forward"):
            assert (trace.span_bytes[trace.of("transfer")] == held).all()


LANE_FILES = sorted(FOLDER.glob(f"{LANES_PREFIX}*.npz"))
WANTED_LANES = {
    f"{LANES_PREFIX}{name}.{kernel.name}.npz": (problem, kernel.name)
    for entry in ALGORITHMS.values()
    if (kernel := entry.lanes)
    for name, problem in lane_problems(entry, kernel).items()
}


def test_the_files_of_lanes_are_those_of_every_kernel_with_marks():
    headers = {file.name: Lanes.header_of(file) for file in LANE_FILES}
    found = {name: (AttentionProblem(**each["problem"]), each["kernel"]) for name, each in headers.items()}
    assert found == WANTED_LANES


@pytest.mark.parametrize("file", WANTED_LANES)
def test_recorded_lanes_are_from_a_gpu_and_what_a_lane_does_itself_does_not_overlap(file):
    lanes = recorded_lanes(*WANTED_LANES[file])
    assert "NVIDIA" in lanes.device.name
    assert 0 < lanes.product_share <= 1
    assert (lanes.event_end_ns >= lanes.event_begin_ns).all()
    kinds = np.array([kind for _, kind in lanes.activities])[lanes.event_activity]
    own = np.flatnonzero(kinds != PRODUCT)  # ordered by program, lane and begin
    before, after = own[:-1], own[1:]
    same = np.all([of[before] == of[after] for of in (lanes.event_program, lanes.event_lane)], axis=0)
    assert (lanes.event_begin_ns[after] >= lanes.event_end_ns[before])[same].all()


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_recorded_time_and_memory(preset):
    measurement = recorded_measurement(PRESETS[preset].problem)
    once = (
        [] if preset == "documents" else [("naive",)]
    )  # recorded before standard attention took its mask there
    for peer in (*once, ("ours",), ("ours", "backward")):
        assert measurement.result(*peer).timing.median_ms > 0
    assert measurement.device.backend == "cuda"
    other = PRESETS[preset].problem.with_(seed=77)
    assert recorded_run(other, "flash2") is recorded_measurement(other) is None


@pytest.mark.parametrize("file", [file for file in WANTED_LANES if ".backward_sweep." in file])
def test_each_lane_of_the_backward_sweep_that_adds_dq_does_it_once_per_visited_tile(file):
    lanes = recorded_lanes(*WANTED_LANES[file])
    names = [name for name, _ in lanes.activities]
    tiles = defaultdict(list)
    fields = ("program", "lane", "activity", "batch_head", "q_tile")
    events = zip(*(getattr(lanes, f"event_{name}").tolist() for name in fields), strict=True)
    for program, lane, activity, *tile in events:
        tiles[program, names[activity], lane].append(tuple(tile))
    for program in set(lanes.event_program.tolist()):
        softmax, added = (
            [sorted(of_lane) for key, of_lane in tiles.items() if key[:2] == (program, wanted)]
            for wanted in ("exponentials", "add dQ")
        )
        visited = softmax[0]
        assert len(set(visited)) == len(visited)
        assert softmax == [visited] * 2
        assert added == [visited] * (1 if lanes.problem.head_dim <= 64 else 2)
