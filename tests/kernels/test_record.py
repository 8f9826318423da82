"""record.py and sweep.py: parts, time limit, partial results, and what each part says when it cannot."""

import pytest

from kernels import ceilings, gpu_state, record, sweep
from kernels.clocks import Timing
from kernels.document import Document, read_document
from kernels.gpu_state import clock_words, parse_reading, summarise
from kernels.problem import AttentionProblem
from kernels.recorder import DEVICE
from tests.kernels.documents import measurement

FUSED = "sdpa" if DEVICE == "cpu" else "ours"
CELLS = [
    sweep.Cell(AttentionProblem(q_len=length, kv_len=length, head_dim=16, dtype="float32", block_m=32, block_n=32), ("naive", FUSED))
    for length in (32, 64)
]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(sweep, "BUDGET_S", 0.01)
    monkeypatch.setattr(sweep, "sweep_cells", lambda: CELLS)
    monkeypatch.setattr(ceilings, "COPY_BYTES", dict.fromkeys(("cpu", "cuda"), 1 << 20))
    monkeypatch.setattr(ceilings, "PRODUCT_SIZE", dict.fromkeys(("cpu", "cuda"), 64))
    monkeypatch.setattr(ceilings, "BUDGET_S", 0.01)


def test_the_sweep_is_that_of_the_benchmarks_and_the_most_asked_for_comes_first():
    cells = sweep.sweep_cells()
    assert all(cell.problem.batch * cell.problem.q_len == 16384 for cell in cells)
    assert all(cell.problem.q_heads * cell.problem.head_dim == 2048 for cell in cells)
    assert {cell.problem.head_dim for cell in cells} == {64, 128, 256}
    assert {cell.problem.q_len for cell in cells} == {512, 1024, 2048, 4096, 8192, 16384}
    assert {cell.problem.mask for cell in cells} == {"full", "causal"}
    first = cells[: 6 * 2 * 2]
    assert {(cell.problem.dtype, cell.problem.head_dim) for cell in first} == {("float16", 64), ("float16", 128)}
    assert len({cell.problem for cell in cells[:72]}) == 72
    assert all("flex" in cell.peers for cell in cells[72:])


def test_every_cell_is_saved_as_soon_as_it_is_measured(quick):
    saved = []
    document = sweep.run_sweep(CELLS, 1.0, saved.append, lambda line: None)
    assert [len(partial.measurements) for partial in saved] == [1, 2, 2]
    assert [len(partial.left_out) for partial in saved] == [1, 0, 0]
    assert [found.problem.q_len for found in document.measurements] == [32, 64]
    assert {result.direction for result in document.measurements[0].results} == {"forward", "backward"}


def test_what_there_was_no_time_for_is_named(quick):
    document = sweep.run_sweep(CELLS, 0.0, lambda document: None, lambda line: None)
    assert document.measurements == ()
    assert document.left_out == tuple(cell.name for cell in CELLS)


def test_a_cell_that_fails_costs_that_cell_and_a_lost_device_the_rest(quick, monkeypatch):
    def fail(problem, peers, directions, budget_s):
        if problem.q_len == 32:
            raise RuntimeError(message)
        return measurement(512)

    monkeypatch.setattr(sweep, "measure", fail)
    message = "no such thing"
    assert sweep.run_sweep(CELLS, 1.0, lambda document: None, lambda line: None).left_out == (CELLS[0].name,)
    message = "CUDA error: an illegal memory access was encountered"
    assert len(sweep.run_sweep(CELLS, 1.0, lambda document: None, lambda line: None).left_out) == 2


def test_parts_are_written_each_to_its_file_with_the_command(quick, tmp_path, capsys):
    assert record.main(["--out", str(tmp_path), "--parts", "ceilings,sweeps", "--minutes", "1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ceilings.json", "sweeps.json"]
    sweeps = read_document((tmp_path / "sweeps.json").read_bytes())
    assert sweeps.command == "python -m kernels.record --parts ceilings,sweeps --minutes 1"
    assert len(sweeps.measurements) == 2
    found = read_document((tmp_path / "ceilings.json").read_bytes()).ceilings
    assert {ceiling.kind for ceiling in found} == {"copy", "product"}
    assert all(ceiling.per_second > 0 for ceiling in found)
    assert "naive fwd" in capsys.readouterr().err


def test_a_part_that_does_not_exist_is_refused_in_one_line(capsys):
    assert record.main(["--parts", "sweeps,songs"]) == 2
    assert capsys.readouterr().err == "error: --parts songs is not accepted: expected some of traces,ceilings,counters,sweeps\n"


def test_counters_that_are_not_allowed_are_skipped_with_a_message_and_overwrite_nothing(tmp_path, monkeypatch, capsys):
    from kernels import ncu

    monkeypatch.setattr(ncu, "find_ncu", lambda: None)
    record.record_counters(tmp_path, "command", 1.0)
    path = tmp_path / "counters.json"
    assert "ncu" in read_document(path.read_bytes()).left_out[0]
    assert "counters are skipped: ncu (NVIDIA Nsight Compute) is not on the PATH" in capsys.readouterr().err
    record.write_document(path, Document(command="an earlier one"))
    record.record_counters(tmp_path, "command", 1.0)
    assert read_document(path.read_bytes()).command == "an earlier one"


def test_throttling_is_read_from_nvidia_smi():
    assert parse_reading("1980, 1980, 412.07, 41, 0x0000000000000004\n") == (1980.0, 1980.0, 412.07, 41.0, 4)
    with pytest.raises(ValueError, match="could not convert"):
        parse_reading("1980, 1980, [N/A], 41, 0x4")
    idle, busy, slow = (345.0, 1980.0, 90.0, 30.0, 1), (1980.0, 1980.0, 600.0, 50.0, 0), (1700.0, 1980.0, 690.0, 55.0, 0x4 | 0x20)
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


def test_a_wide_spread_is_known():
    assert Timing(1.0, 0.9, 1.3, 9).is_wide
    assert not Timing(1.0, 0.95, 1.05, 9).is_wide
