"""record.py: parts, each in its file, and what each says when it cannot."""

from kernels.measure import ncu
from kernels.measure.document import Document, read_document
from kernels.tools import record


def test_parts_are_written_each_to_its_file_with_the_command(quick_points, tmp_path, capsys):
    assert record.main(["--out", str(tmp_path), "--parts", "ceilings,sweeps", "--minutes", "1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ceilings.json", "sweeps.json"]
    sweeps = read_document((tmp_path / "sweeps.json").read_bytes())
    assert sweeps.command == "python -m kernels.record --parts ceilings,sweeps --minutes 1"
    assert len(sweeps.measurements) == 2
    ceilings = read_document((tmp_path / "ceilings.json").read_bytes()).ceilings
    assert {ceiling.kind for ceiling in ceilings} == {"copy", "product"}
    assert all(ceiling.per_second > 0 for ceiling in ceilings)
    assert "naive fwd" in capsys.readouterr().err


def test_a_part_that_does_not_exist_is_refused_in_one_line(capsys):
    assert record.main(["--parts", "sweeps,songs"]) == 2
    assert (
        capsys.readouterr().err
        == "error: --parts songs is not accepted: expected some of traces,ceilings,counters,sweeps\n"
    )


def test_counters_that_are_not_allowed_are_skipped_with_a_message_and_overwrite_nothing(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(ncu, "find_ncu", lambda: None)
    order = record.RecordOrder(tmp_path, "command", minutes=1.0)
    record.record_counters(order)
    path = tmp_path / "counters.json"
    assert "ncu" in read_document(path.read_bytes()).left_out[0]
    assert "counters are skipped: ncu (NVIDIA Nsight Compute) is not on the PATH" in capsys.readouterr().err
    record.write_document(path, Document(command="an earlier one"))
    record.record_counters(order)
    assert read_document(path.read_bytes()).command == "an earlier one"
