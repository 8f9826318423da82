"""Files of lanes."""

import io
import json

import numpy as np
import pytest

from kernels.algorithms import run_lanes
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace.lanes import InvalidLanes, Lanes
from tests.kernels.primitives.test_assemble_lanes import made_lanes


def test_a_file_gives_the_same_lanes(tmp_path):
    lanes, file = made_lanes(), tmp_path / "lanes.npz"
    lanes.save(file)
    read = Lanes.load(file)
    assert Lanes.subject_of(file) == (lanes.problem, lanes.kernel)
    for name, value in vars(lanes).items():
        if name != "wait_shares":
            np.testing.assert_array_equal(getattr(read, name), value)


def changed(**changes):
    with np.load(io.BytesIO(made_lanes().to_bytes())) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    header |= {name: value for name, value in changes.items() if name in header}
    arrays |= {name: value for name, value in changes.items() if name not in header}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"no archive",
        changed(version=99),
        changed(format="another"),
        changed(event_lane=np.zeros(3, np.int8)),
        changed(event_activity=np.full(11, 99, np.int8)),
        changed(problem={"q_len": "many"}),
        changed(sm_lane_ns=np.zeros((1, 1))),
    ],
    ids=["bytes", "version", "format", "length", "activity", "problem", "shape"],
)
def test_anything_else_is_refused(data):
    with pytest.raises(InvalidLanes):
        Lanes.load(data)


@pytest.mark.parametrize(("algorithm", "kernel"), [("backward", "backward_sweep"), ("flash3", "flash3")])
def test_a_file_of_before_names_the_algorithm_whose_only_kernel_it_is_of(algorithm, kernel, tmp_path):
    with np.load(io.BytesIO(made_lanes().to_bytes())) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    del header["kernel"]
    header["algorithm"] = algorithm
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(tmp_path / "lanes.npz", **arrays)
    assert Lanes.load(tmp_path / "lanes.npz").kernel == kernel
    assert Lanes.subject_of(tmp_path / "lanes.npz")[1] == kernel


@pytest.mark.parametrize(
    ("kernel", "tiles", "words"),
    [
        ("backward_sweep", {"block_m": 64, "block_n": 64}, "64 x 64.*those of 64 x 128 tiles"),
        ("flash3", {"block_m": 64, "block_n": 64}, "those of 128 x 128 tiles"),
        ("standard", {}, "lanes are recorded of"),
    ],
)
def test_lanes_of_other_tiles_than_those_shown_are_refused(kernel, tiles, words):
    with pytest.raises(InvalidProblem, match=words):
        run_lanes(AttentionProblem(**tiles), kernel)
