"""The SM timeline: one bar per program."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import algorithm_of, run_traced
from kernels.problem import AttentionProblem
from kernels.trace.schedule import program_spans, step_schedule
from viz.explore.figures import busy_share, timeline_figure, without_pauses
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


@pytest.fixture(scope="module", params=["flash2", "backward"])
def drawn(request):
    """A run, its spans on three SMs, and their bars."""
    trace = run_traced(PROBLEM, request.param)
    schedule = step_schedule(trace, algorithm_of(trace), 3)
    spans = program_spans(trace, schedule)
    return trace, spans, timeline_figure(spans, schedule, algorithm_of(trace), theme.LIGHT).data[0]


def test_the_timeline_has_a_bar_per_program_on_its_sm(drawn):
    trace, spans, bars = drawn
    assert len(bars.x) == len(np.unique([trace.kernel, trace.program], axis=1).T)
    assert sorted(set(bars.y)) == [0, 1, 2]
    assert sum(bars.x) == trace.steps
    assert 0.5 < busy_share(spans, 3) <= 1
    assert busy_share(spans, 6) == pytest.approx(busy_share(spans, 3) / 2)


def test_pauses_between_launches_are_left_out_and_work_keeps_its_length():
    trace = run_traced(PROBLEM, "flash2")
    span = program_spans(trace, step_schedule(trace, algorithm_of(trace), 3))[0]
    spans = [
        replace(span, start=start, end=end, sm=sm)
        for start, end, sm in ((5, 20, 0), (10, 25, 1), (900, 910, 0))
    ]
    assert [(one.start, one.end) for one in without_pauses(spans)] == [(5, 20), (10, 25), (25, 35)]
    assert without_pauses([]) == []
