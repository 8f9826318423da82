"""The figures of Explore: traffic by tensor, the SM timeline."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import algorithm_of, run_traced
from kernels.algorithms.standard.traffic import requested_ledger
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.trace.schedule import modelled_ns, program_spans, step_schedule
from tests.viz.player.runs import hand_built
from viz.explore.figures import (
    busy_share,
    ledger_table,
    ledgers_of,
    timeline_figure,
    without_pauses,
)
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


def test_the_ledger_sets_counted_beside_modelled():
    trace = hand_built(PROBLEM)
    ledgers = ledgers_of(trace)
    assert [*ledgers.values()] == [
        {"Q": 20, "K": 100, "V": 200, "O": 28, "lse": 0},
        requested_ledger(PROBLEM),
    ]
    head, _, *lines, total = (line.strip("| ").split(" | ") for line in ledger_table(ledgers).split("\n"))
    assert ["counted" in head[1], "modelled" in head[2], "348 B" in total[1]] == [True] * 3
    assert [line[0] for line in lines] == ["Q", "K", "V", "S", "P", "O", "lse"]
    assert lines[3][1] == lines[6][2] == "none"


def test_two_runs_are_compared_tensor_by_tensor():
    found = ledgers_of(*(run_traced(PROBLEM, name) for name in ("flash2", "flash1")))
    first, second = found.values()
    assert [*found][1].startswith("B: FlashAttention-1")
    assert second["K"] < first["K"]  # key outer reads every key tile once
    assert second["O"] > first["O"]  # and O at every step


def test_a_backward_run_is_set_beside_the_standard_backward_pass():
    trace = run_traced(PROBLEM, "backward")
    found = ledgers_of(trace)
    own, standard = found.values()
    assert "modelled" in [*found][1]
    assert {"dP", "dS", "P"} <= {*standard}
    assert not {"dP", "dS", "P", "S"} & {*own}


THREE_SMS = replace(GPUS["H200"], sm_count=3)


@pytest.fixture(scope="module", params=["flash2", "backward"])
def drawn(request):
    """A run, its spans on three SMs, and their bars."""
    trace = run_traced(PROBLEM, request.param)
    algorithm = algorithm_of(trace)
    spans = program_spans(trace, step_schedule(trace, algorithm, THREE_SMS), algorithm)
    return trace, spans, timeline_figure(spans, algorithm, theme.LIGHT).data[0]


def test_the_timeline_has_a_bar_per_program_on_its_sm(drawn):
    trace, spans, bars = drawn
    assert len(bars.x) == len(np.unique([trace.kernel, trace.program], axis=1).T)
    assert sorted(set(bars.y)) == [0, 1, 2]
    took_ns = 3 * modelled_ns(trace, algorithm_of(trace), THREE_SMS).sum()
    assert sum(bars.x) == pytest.approx(took_ns / 1e3, abs=trace.steps / 1e3)  # whole ns
    assert 0.5 < busy_share(spans, 3) <= 1
    assert busy_share(spans, 6) == pytest.approx(busy_share(spans, 3) / 2)


def test_pauses_between_launches_are_left_out_and_work_keeps_its_length():
    trace = run_traced(PROBLEM, "flash2")
    algorithm = algorithm_of(trace)
    span = program_spans(trace, step_schedule(trace, algorithm, THREE_SMS), algorithm)[0]
    spans = [
        replace(span, start=start, end=end, sm=sm)
        for start, end, sm in ((5, 20, 0), (10, 25, 1), (900, 910, 0))
    ]
    assert [(one.start, one.end) for one in without_pauses(spans)] == [(5, 20), (10, 25), (25, 35)]
    assert without_pauses([]) == []
