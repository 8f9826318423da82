"""Hardware counters: ncu's CSV, the calls in it, and a whole run with a stand-in for ncu."""

import os
import sys

import pytest

from kernels.measure import counters
from kernels.measure.counters import (
    BASIC_METRICS,
    L2,
    TENSOR_METRICS,
    CountersUnavailable,
    parse_csv,
    read_counters,
    split_at_markers,
)
from kernels.problem import AttentionProblem
from kernels.traffic.operations import count_operations
from tests.kernels.documents import NCU_CSV

STAND_IN = """#!{python} -IS
import sys
arguments = sys.argv[1:]
if arguments == ["--query-metrics"]:
    print("Metric Name   Description")
    print("sm__pipe_tensor_cycles_active Counter")
elif {slow}:
    import time; time.sleep(60)
elif {denied}:
    print("==ERROR== ERR_NVGPUCTRPERM - no permission"); sys.exit(1)
else:
    open(arguments[arguments.index("--log-file") + 1], "w").write({csv!r})
"""


def test_the_csv_of_ncu_is_read_and_markers_part_the_calls():
    kernels = parse_csv(NCU_CSV, BASIC_METRICS + TENSOR_METRICS)
    softmax = kernels[1]
    assert softmax.dram_bytes == 1536500 + 2048
    assert softmax.time_ms == pytest.approx(0.0125)
    assert softmax.metrics[L2] == 5e6
    assert L2 not in kernels[4].metrics
    assert parse_csv("==ERROR== nothing", BASIC_METRICS) == []
    assert L2 not in parse_csv(NCU_CSV.replace('"4"', '"nan"'), BASIC_METRICS)[2].metrics
    groups = [[kernel.short_name for kernel in group] for group in split_at_markers(kernels)]
    assert groups == [["softmax_forward", "_attn_fwd"], ["sm90_gemm"]]


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Puts a program on the PATH that writes a CSV in place of ncu, or says that it may not."""

    def put(csv, denied=False, slow=False):
        path = tmp_path / "ncu"
        path.write_text(STAND_IN.format(python=sys.executable, csv=csv, denied=denied, slow=slow))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return put


WHOLE = NCU_CSV.replace('"n/a"', '"10"')
SMALL = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=32)


def test_counters_of_each_call_are_read(stand_in):
    stand_in(WHOLE)
    runs = read_counters(SMALL, [("naive", "forward"), ("sdpa_flash", "forward")])
    assert [(run.peer, len(run.kernels)) for run in runs] == [("naive", 2), ("sdpa_flash", 1)]
    assert runs[0].counted == count_operations(SMALL)
    assert runs[1].counted == ()


@pytest.mark.parametrize(
    ("csv", "denied", "message"),
    [
        (WHOLE, True, "ERR_NVGPUCTRPERM"),
        ("==PROF== nothing", False, "ncu failed"),
        (NCU_CSV, False, "sm90_gemm has no lts__t_bytes.sum"),
        (WHOLE.split('"3","at')[0], False, "of 1 calls, 2 were made"),
    ],
)
def test_where_there_are_no_counters_it_says_why(stand_in, csv, denied, message):
    stand_in(csv, denied)
    with pytest.raises(CountersUnavailable, match=message):
        read_counters(SMALL, [("naive", "forward"), ("sdpa_flash", "forward")])


def test_ncu_that_does_not_end_is_stopped(stand_in, monkeypatch):
    stand_in(WHOLE, slow=True)
    monkeypatch.setattr(counters, "LIMIT_S", 1)
    with pytest.raises(CountersUnavailable, match="within 1 s"):
        read_counters(SMALL, [("naive", "forward")])
