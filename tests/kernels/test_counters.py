"""Hardware counters: ncu's CSV, a whole run with a stand-in for ncu, the four numbers and the roofline made of them."""

import os
import sys

import pytest

from kernels import ncu
from kernels.counters import BASIC_METRICS, MORE_METRICS, CounterRun, KernelCounters, parse_csv, split_at_markers
from kernels.four_numbers import KINDS, cache_share, compulsory_of, joined_small, our_modelled_parts, our_numbers, standard_numbers
from kernels.ncu import CountersUnavailable, read_counters, requested
from kernels.op_traffic import Operation, count_operations
from kernels.problem import AttentionProblem
from kernels.roofline import counter_points, roofs, timed_points
from kernels.traffic import backward_standard_bytes, compulsory_bytes, standard_bytes
from tests.kernels.documents import DEVICE, counter_run, document, measurement

HEADER = '"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum","lts__t_bytes.sum"'
CSV = f"""==PROF== Connected to process 77
{HEADER}
"","","Mbyte","byte","us","byte"
"0","at::cuda::<unnamed>::spin_kernel(long)","0","0","1","0"
"1","void at::native::(anonymous namespace)::softmax_forward<float, 4>(float*, int)","1,536.5","2048","12.5","5000000"
"2","_attn_fwd","1","2","3","4"
"3","at::cuda::<unnamed>::spin_kernel(long)","0","0","1","0"
"4","sm90_gemm","7","8","9","n/a"
"""


def test_the_csv_of_ncu_is_read_in_base_units():
    kernels = parse_csv(CSV, BASIC_METRICS + MORE_METRICS)
    softmax = kernels[1]
    assert softmax.short_name == "softmax_forward"
    assert softmax.dram_read_bytes == 1536.5e6
    assert softmax.dram_bytes == 1536.5e6 + 2048
    assert softmax.time_ms == pytest.approx(0.0125)
    assert softmax.l2_bytes == 5e6
    assert softmax.tensor_percent is None
    assert KernelCounters("k", {MORE_METRICS[1]: 41.0}).tensor_percent == 41.0
    assert "lts__t_bytes.sum" not in kernels[4].metrics
    assert parse_csv("==ERROR== nothing", BASIC_METRICS) == []


def test_markers_part_the_calls():
    groups = split_at_markers(parse_csv(CSV, BASIC_METRICS))
    assert [[kernel.short_name for kernel in group] for group in groups] == [["softmax_forward", "_attn_fwd"], ["sm90_gemm"]]


def test_a_counter_run_survives_a_dictionary():
    run = counter_run()
    assert CounterRun.from_dict(run.as_dict()) == run
    assert run.dram_bytes == 60e6


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
    path.write_text(STAND_IN.format(python=sys.executable, metric="sm__throughput", csv=csv, fails=fails, denied=denied))
    path.chmod(0o755)
    return folder


WHOLE = CSV.replace('"n/a"', '"10"')
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
        (CSV, False, "ncu gave no full set of counters: sm90_gemm has no lts__t_bytes.sum"),
        (HEADER + '\n"","","byte","byte","ns","byte"\n"0","spin_kernel","0","0","1","0"\n', False, "kernels of 1 calls, 2 were made"),
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


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_our_kernels_ask_for_what_the_formula_says(mask, direction):
    problem = AttentionProblem(batch=2, q_heads=2, kv_heads=2, q_len=100, kv_len=164, head_dim=40, mask=mask)
    counted = requested(problem, "ours", direction)
    modelled = our_modelled_parts(problem, direction, counted)
    assert [(operation.name, operation.bytes_moved) for operation in counted] == [(part.name, part.bytes) for part in modelled]


def test_operations_of_naive_attention_are_counted_from_their_tensors():
    problem = AttentionProblem(q_heads=2, kv_heads=2, q_len=256, kv_len=256, head_dim=64)
    square, tensor = 2 * 256 * 256 * 2, 2 * 256 * 64 * 2
    forward = count_operations(problem)
    assert [operation.name for operation in forward] == ["bmm", "mul", "_softmax", "bmm"]
    assert [operation.bytes_moved for operation in forward] == [2 * tensor + square, 2 * square, 2 * square, square + 2 * tensor]
    backward = count_operations(problem, "backward")
    assert sum(operation.name == "bmm" for operation in backward) == 4
    assert any("masked_fill" in operation.name for operation in count_operations(problem.with_(mask="causal")))
    shared = count_operations(problem.with_(kv_heads=1))
    assert sum(operation.bytes_moved for operation in shared) > sum(operation.bytes_moved for operation in forward)


def test_the_four_numbers_are_of_four_kinds_and_say_what_is_missing():
    run = counter_run()
    numbers = our_numbers(run.problem, "forward", run.counted, run)
    assert tuple(number.kind for number in numbers) == KINDS
    modelled, asked, least, dram = numbers
    assert asked.bytes == 600e6
    assert dram.bytes == 60e6
    assert least.bytes == compulsory_bytes(run.problem)
    assert modelled.bytes == 16 * (2 * 4096 * 64 * 2 + 4096 * 4 + 64 * 2 * 4096 * 64 * 2)  # with the 64 x 128 tiles that were counted
    assert cache_share(asked, dram) == pytest.approx(0.9)
    without = standard_numbers(run.problem, "forward", (), None)
    assert (without[1].missing, without[3].missing) == ("not counted", "not recorded")
    assert without[0].bytes == standard_bytes(run.problem)
    assert cache_share(without[1], without[3]) is None
    assert standard_numbers(run.problem, "backward", (), None)[0].bytes == backward_standard_bytes(run.problem)


def test_compulsory_bytes_of_a_backward_pass():
    problem = AttentionProblem(q_heads=4, kv_heads=2, q_len=10, kv_len=20, head_dim=16)
    rows, keys = 4 * 10, 2 * 20
    assert compulsory_of(problem, "backward") == (4 * rows + 4 * keys) * 16 * 2 + rows * 4


def test_small_parts_are_joined_and_nothing_is_lost():
    parts = joined_small(
        count for count in our_numbers(SMALL, "backward", [Operation("big", 1000, 0, ""), Operation("tiny", 1, 0, "")], None)[1].parts
    )
    assert [(part.name, part.bytes) for part in parts] == [("big", 1000), ("the rest", 1)]


def test_points_lie_at_their_bytes_and_under_the_roof_of_their_device():
    counted, dram = counter_points([counter_run()])
    flops = 4 * 16 * 4096**2 * 64
    assert (counted.bytes_are, dram.bytes_are) == ("counted", "DRAM")
    assert counted.intensity == pytest.approx(flops / 600e6)
    assert dram.intensity == pytest.approx(flops / 60e6)
    assert counted.flops_per_s == pytest.approx(flops / 1e-3)
    measured, datasheet = roofs(document().ceilings, DEVICE, "float16")
    assert measured.bytes_per_s == pytest.approx(4e12)
    assert measured.flops_per_s == pytest.approx(6e14)
    assert measured.attainable(1.0) == pytest.approx(4e12)
    assert datasheet.label == "datasheet of the H200 SXM"
    assert roofs((), None, "float16") == []


def test_timed_points_say_that_their_bytes_are_modelled():
    naive, ours = timed_points(measurement(1024), ("forward",))
    assert {naive.bytes_are, ours.bytes_are} == {"modelled"}
    assert naive.intensity < ours.intensity
    assert timed_points(measurement(1024), ("backward",)) == []
