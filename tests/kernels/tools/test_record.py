"""record.py: parts, each in its file, and what each says when it cannot."""

import dataclasses
import json

import pytest

from kernels import record
from kernels.algorithms import ALGORITHMS
from kernels.file_format import write
from kernels.measure import counters, sweep
from kernels.measure.document import Document, read_document
from kernels.measure.measurement import Measurement
from kernels.problem import InvalidProblem
from kernels.problem.presets import LANE_PROBLEMS, PRESETS
from kernels.trace.lanes import Lanes
from tests.kernels.documents import DATE, DEVICE
from tests.lanes import plain_lanes


def test_parts_are_written_each_to_its_file_with_the_command(quick_points, tmp_path, capsys):
    assert record.main(["--out", str(tmp_path), "--parts", "ceilings,sweeps", "--minutes", "1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ceilings.json", "sweeps.json"]
    sweeps = read_document((tmp_path / "sweeps.json").read_bytes())
    assert sweeps.command == "python -m kernels.record --parts ceilings,sweeps --minutes 1"
    assert len(sweeps.measurements) == 2
    ceilings = read_document((tmp_path / "ceilings.json").read_bytes()).ceilings
    assert {ceiling.kind for ceiling in ceilings} == {"copy", "product"}
    assert all(ceiling.per_second > 0 for ceiling in ceilings)
    assert "forward  naive" in capsys.readouterr().err


def test_a_name_that_does_not_exist_is_refused_with_those_that_do(capsys):
    with pytest.raises(SystemExit, match="2"):
        record.main(["--parts", "sweeps,songs"])
    assert "songs is not accepted: expected some of " in capsys.readouterr().err


def test_without_a_gpu_the_shipped_recordings_are_not_overwritten(tmp_path, monkeypatch, capsys):
    shipped, link = tmp_path / "shipped", tmp_path / "link"
    shipped.mkdir()
    link.symlink_to(shipped)
    monkeypatch.setattr(record, "FOLDER", shipped)
    monkeypatch.setattr("kernels.device.runtime.INTERPRETED", True)
    monkeypatch.setattr(record, "PARTS", {"traces": lambda order: (order.folder / "written").touch()})
    for given in (shipped, link):
        assert record.main(["--out", str(given)]) == 2
        assert f"--out {given} is not accepted" in capsys.readouterr().err
    assert not list(shipped.iterdir())
    assert record.main(["--out", str(tmp_path / "mine")]) == 0
    monkeypatch.setattr("kernels.device.runtime.INTERPRETED", False)
    assert record.main(["--out", str(link)]) == 0
    assert list(shipped.iterdir())


def test_counters_that_are_not_allowed_are_skipped_and_overwrite_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(counters, "find_ncu", lambda: None)
    order = record.RecordOrder(tmp_path, "command", minutes=1.0)
    record.record_counters(order)
    path = tmp_path / "counters.json"
    assert "ncu" in read_document(path.read_bytes()).left_out[0]
    assert "counters are skipped: ncu" in capsys.readouterr().err
    write(path, Document("an earlier one").to_json())
    record.record_counters(order)
    assert read_document(path.read_bytes()).command == "an earlier one"


def test_what_was_measured_before_a_recording_ends_is_kept_and_the_next_goes_on(tmp_path, monkeypatch):
    asked = []

    def measure(problem, *_, **__):
        asked.append(problem)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return Measurement(problem, DEVICE, DATE, ())

    monkeypatch.setattr(sweep, "measure", measure)
    order = record.RecordOrder(tmp_path, "command", minutes=1.0)
    with pytest.raises(KeyboardInterrupt):
        record.record_models(order)
    path = tmp_path / "models.json"
    assert [each.problem for each in read_document(path.read_bytes()).measurements] == asked[:1]
    record.record_models(order)
    assert asked.count(asked[0]) == 1
    assert asked.count(asked[1]) == 2
    assert not read_document(path.read_bytes()).left_out


@pytest.fixture
def recorded(monkeypatch):
    """Recording without running anything: a run and a measurement say for which problem they were asked."""

    def traced(folder, name, entry, problem, sample=None):
        return {"problem": problem.as_dict(), "algorithm": entry.name, "file": f"{name}.{entry.name}.npz"}

    monkeypatch.setattr(record, "measure", lambda problem, directions: Measurement(problem, DEVICE, DATE, ()))
    monkeypatch.setattr(record, "_record_trace", traced)
    monkeypatch.setattr(record, "compute_capability", lambda backend: "9.0")


def index_after(folder, *arguments):
    """The index, and the names of its traces."""
    assert record.main(["--out", str(folder), "--parts", "traces", *arguments]) == 0
    index = json.loads((folder / "index.json").read_text())
    return index, [run["file"] for run in index["runs"]]


def test_every_algorithm_is_recorded_for_its_presets_with_its_own_tiles(recorded, tmp_path):
    index, files = index_after(tmp_path)
    of_entries = [f"{preset}.{entry.name}.npz" for entry in ALGORITHMS.values() for preset in entry.recorded]
    assert sorted(files) == sorted(of_entries)
    run = next(run for run in index["runs"] if run["file"] == "llama3.flash3.npz")
    own = PRESETS["llama3"].problem.with_(block_m=128, block_n=128)
    assert run["problem"] == own.as_dict()
    measured = [measurement["problem"] for measurement in index["measurements"]]
    assert own.as_dict() in measured  # and its time
    assert all(measured.count(preset.problem.as_dict()) == 1 for preset in PRESETS.values())


def test_one_algorithm_alone_joins_the_index_and_one_that_cannot_run_here_stays_in_it(
    recorded, tmp_path, monkeypatch, capsys
):
    old, before = index_after(tmp_path, "--algorithms", "flash2,backward")
    index, files = index_after(tmp_path, "--algorithms", "flash3")
    assert files == [*before, *(f"{name}.flash3.npz" for name in ALGORITHMS["flash3"].recorded)]
    assert index["measurements"][: len(old["measurements"])] == old["measurements"]
    assert len(index["measurements"]) > len(old["measurements"])
    assert index["command"].count("--algorithms") == 2
    assert index_after(tmp_path, "--algorithms", "flash3")[1] == files  # again: in its place
    _, before = index_after(tmp_path)
    monkeypatch.setattr(record, "compute_capability", lambda backend: "8.0")
    capsys.readouterr()
    _, files = index_after(tmp_path)
    assert "(Hopper) is left out" in capsys.readouterr().err
    assert sorted(files) == sorted(before)


@pytest.fixture
def measured(monkeypatch):
    """Lanes without running anything; gives what was asked for: (kernel, problem)."""
    asked = []

    def run_lanes(problem, kernel):
        asked.append((kernel, problem))
        if problem.head_dim == 80:
            raise InvalidProblem("head_dim", 80, "not today")
        return dataclasses.replace(plain_lanes(), problem=problem, kernel=kernel)

    monkeypatch.setattr(record, "run_lanes", run_lanes)
    monkeypatch.setattr(record, "compute_capability", lambda backend: "9.0")
    return asked


def test_lanes_of_one_algorithm_are_recorded_with_the_tiles_that_a_page_shows(measured, tmp_path, capsys):
    record.main(["--out", str(tmp_path), "--parts", "lanes", "--algorithms", "backward"])
    files = {file.name for file in tmp_path.iterdir()}
    assert {kernel for kernel, _ in measured} == {"backward_plain"}
    recorded = ALGORITHMS["backward"].recorded
    wanted = {*recorded, *LANE_PROBLEMS}
    assert files == {f"lanes.{name}.backward_plain.npz" for name in wanted - {"ragged"}}
    assert "lanes of ragged, backward_plain are left out" in capsys.readouterr().err
    problems = [problem for _, problem in measured]
    assert all(PRESETS[name].problem in problems for name in recorded)  # as they are played
    for name, problem in LANE_PROBLEMS.items():
        lanes = Lanes.load(tmp_path / f"lanes.{name}.backward_plain.npz")
        assert (lanes.problem, lanes.kernel) == (problem.with_(block_m=64), "backward_plain")
