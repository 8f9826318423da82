"""Our kernels against each peer: ratios of times, their mean, and the table."""

from kernels import compare
from kernels.compare import markdown_table, time_ratios
from kernels.device.clocks import Timing
from kernels.measure.document import Document
from kernels.measure.measurement import Measurement, PeerResult
from kernels.problem import AttentionProblem
from tests.kernels.documents import DATE, DEVICE


def run(length, **times):
    results = tuple(
        PeerResult(peer, Timing(ms, ms, ms, 5), 0) if ms else PeerResult(peer, refused="needs more")
        for peer, ms in times.items()
    )
    return Measurement(AttentionProblem(q_len=length, kv_len=length), DEVICE, DATE, results)


RUNS = (
    run(64, ours=1.0, naive=8.0, sdpa_flash=0.5),
    run(128, ours=2.0, naive=4.0, sdpa_flash=1.0),
    run(256, ours=3.0, naive=None),
    run(512, naive=9.0),
)


def test_the_table_has_means_and_the_least_over_problems_on_which_both_were_timed_bold_if_a_peer_is_faster():
    ratios = time_ratios(RUNS)
    assert ratios == {("forward", 64, "naive"): [8.0, 2.0], ("forward", 64, "sdpa_flash"): [0.5, 0.5]}
    header, _, line = markdown_table(ratios).splitlines()
    assert header == "| | standard (torch) | SDPA flash |"
    assert line == "| forward, head_dim 64 | 4.00, 2.00 (2) | **0.50**, 0.50 (2) |"


def test_the_command_line_reads_a_file_and_refuses_one_without_ours(tmp_path, capsys):
    path = tmp_path / "m.json"
    path.write_text(Document(measurements=RUNS).to_json())
    assert compare.main([str(path)]) == 0
    assert "4.00, 2.00 (2)" in capsys.readouterr().out
    path.write_text(Document(measurements=RUNS[3:]).to_json())
    assert compare.main([str(path)]) == 2
    assert "--peers ours" in capsys.readouterr().err
    path.write_text("no JSON")
    assert compare.main([str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
