"""Hardware counters: ncu's CSV, the calls in it, and the record of one."""

import pytest

from kernels.measure.counters import (
    BASIC_METRICS,
    MORE_METRICS,
    CounterRun,
    KernelCounters,
    parse_csv,
    split_at_markers,
)
from tests.kernels.documents import NCU_CSV, counter_run


def test_the_csv_of_ncu_is_read_in_base_units():
    kernels = parse_csv(NCU_CSV, BASIC_METRICS + MORE_METRICS)
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
    assert "lts__t_bytes.sum" not in parse_csv(NCU_CSV.replace('"4"', '"nan"'), BASIC_METRICS)[2].metrics


def test_markers_part_the_calls():
    groups = split_at_markers(parse_csv(NCU_CSV, BASIC_METRICS))
    assert [[kernel.short_name for kernel in group] for group in groups] == [
        ["softmax_forward", "_attn_fwd"],
        ["sm90_gemm"],
    ]


def test_a_counter_run_survives_a_dictionary():
    run = counter_run()
    assert CounterRun.from_dict(run.as_dict()) == run
    assert run.dram_bytes == 60e6
