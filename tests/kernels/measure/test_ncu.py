"""Reading hardware counters, a whole run with a stand-in for ncu."""

import os
import sys

import pytest

from kernels.measure import ncu
from kernels.measure.ncu import CountersUnavailable, read_counters
from kernels.problem import AttentionProblem
from kernels.traffic.operations import count_operations
from tests.kernels.documents import NCU_CSV, NCU_HEADER

STAND_IN = """#!{python}
import sys
arguments = sys.argv[1:]
if arguments == ["--query-metrics"]:
    print("Metric Name   Description")
    print("sm__throughput Counter")
elif {metric!r} in arguments[arguments.index("--metrics") + 1] and {fails}:
    print("==ERROR== Failed to find metric"); sys.exit(1)
elif {denied}:
    print("==ERROR== ERR_NVGPUCTRPERM - no permission"); sys.exit(1)
else:
    open(arguments[arguments.index("--log-file") + 1], "w").write({csv!r})
"""


def stand_in(folder, csv, fails=False, denied=False):
    path = folder / "ncu"
    path.write_text(
        STAND_IN.format(python=sys.executable, metric="sm__throughput", csv=csv, fails=fails, denied=denied)
    )
    path.chmod(0o755)
    return folder


WHOLE = NCU_CSV.replace('"n/a"', '"10"')
SMALL = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=32)


@pytest.mark.parametrize("fails", [False, True], ids=["all metrics", "basic metrics alone"])
def test_counters_of_each_call_are_read(tmp_path, monkeypatch, fails):
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path, WHOLE, fails)}{os.pathsep}{os.environ['PATH']}")
    runs = read_counters(SMALL, [("naive", "forward"), ("sdpa_flash", "forward")])
    assert [(run.peer, len(run.kernels)) for run in runs] == [("naive", 2), ("sdpa_flash", 1)]
    assert runs[0].counted == count_operations(SMALL)
    assert runs[1].counted == ()


@pytest.mark.parametrize(
    ("csv", "denied", "message"),
    [
        (WHOLE, True, "this machine does not allow hardware counters"),
        ("==PROF== nothing", False, "ncu failed"),
        (NCU_CSV, False, "ncu gave no full set of counters: sm90_gemm has no lts__t_bytes.sum"),
        (
            NCU_HEADER + '\n"","","byte","byte","ns","byte"\n"0","spin_kernel","0","0","1","0"\n',
            False,
            "kernels of 1 calls, 2 were made",
        ),
    ],
)
def test_where_there_are_no_counters_it_says_why(tmp_path, monkeypatch, csv, denied, message):
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path, csv, denied=denied)}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(CountersUnavailable, match=message):
        read_counters(SMALL, [("naive", "forward"), ("sdpa_flash", "forward")])


def test_without_ncu_it_says_so(monkeypatch):
    monkeypatch.setattr(ncu, "find_ncu", lambda: None)
    with pytest.raises(CountersUnavailable, match=r"ncu .* is not on the PATH"):
        read_counters(SMALL, [("naive", "forward")])
