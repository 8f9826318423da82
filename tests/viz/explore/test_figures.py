"""The figures of Explore: traffic by tensor, row state, distances of the gradients, the SM timeline."""

import re
from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, algorithm_of, run_traced
from kernels.algorithms.standard.traffic import requested_ledger
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visiting_tiles
from kernels.trace.schedule import modelled_ns, program_spans, step_schedule
from tests.anywhere import ANYWHERE
from tests.viz.player.runs import hand_built
from viz.explore.figures import (
    DISTANCE,
    GRADIENTS,
    busy_share,
    gradient_figures,
    ledger_figure,
    ledgers_of,
    row_state_figures,
    spread_rows,
    state_figures,
    timeline_figure,
    without_pauses,
)
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


def test_the_ledger_sets_counted_beside_modelled():
    trace = hand_built(PROBLEM)
    counted = {"Q": 20, "K": 100, "V": 200, "O": 28, "lse": 0}
    standard, ours = ledger_figure(*ledgers_of(trace), theme.LIGHT).data
    assert "modelled" in standard.name
    assert "counted: 348 B" in ours.name
    assert dict(zip(ours.y, ours.x, strict=True)) == counted | {"S": 0, "P": 0}
    assert dict(zip(standard.y, standard.x, strict=True)) == requested_ledger(PROBLEM) | {"lse": 0}


def test_two_runs_are_compared_tensor_by_tensor():
    first, second = ledgers_of(*(run_traced(PROBLEM, name) for name in ("flash2", "flash1")))
    assert second.label.startswith("B: FlashAttention-1")
    assert second.bytes["K"] < first.bytes["K"]  # key outer reads every key tile once
    assert second.bytes["O"] > first.bytes["O"]  # and O at every step


def test_a_backward_run_is_set_beside_the_standard_backward_pass():
    trace = run_traced(PROBLEM, "backward")
    own, standard = ledgers_of(trace)
    assert standard.modelled
    assert {"dP", "dS", "P"} <= set(standard.bytes)
    assert not {"dP", "dS", "P", "S"} & set(own.bytes)
    figures = state_figures(trace, theme.LIGHT)
    assert list(figures) == ["dQ", "dK", "dV"]
    for figure in gradient_figures(trace, theme.LIGHT).values():
        for line in figure.data:
            assert line.y[-1] <= line.y[0]  # the sum arrives at the final gradient


GROUPED = PROBLEM.with_(q_heads=2, kv_heads=1, q_len=24, kv_len=40)
FORWARD = [name for name in ANYWHERE if ALGORITHMS[name].direction == "forward"]
BACKWARD = [name for name in ANYWHERE if ALGORITHMS[name].direction == "backward"]


def figures_of(trace, rows=None):
    return row_state_figures(trace, theme.LIGHT, rows)


def parts(line):
    """The points of a line as (x, y) pairs, cut where the line is broken."""
    x, y = np.array(line.x), np.array(line.y)
    cut = np.flatnonzero(np.isnan(y))
    pieces = zip(np.split(x, cut), np.split(y, cut), strict=True)
    return [(xs[~np.isnan(ys)], ys[~np.isnan(ys)]) for xs, ys in pieces]


def test_row_state_draws_one_line_per_row_over_the_tiles_it_visited():
    figures = figures_of(hand_built(PROBLEM), [(0, 0), (0, 63)])
    assert list(figures) == ["row max m", "row sum l", DISTANCE]
    lines = figures["row sum l"].data
    assert [line.name for line in lines] == ["row 0", "row 63"]
    assert list(lines[0].x) == [0]
    assert list(lines[1].y) == [16, 32, 48, 64]


def test_rows_are_spread_over_those_that_were_recorded():
    """Of a trace of some query tiles, no line is empty."""
    trace = hand_built(PROBLEM)
    assert spread_rows(trace) == [(0, 0), (0, 16), (0, 32), (0, 47), (0, 63)]
    kept = np.isin(trace.q_tile, (1, 3))
    rows = spread_rows(replace(trace, row_max=np.where(kept[:, None], trace.row_max, np.nan)))
    assert {row // 16 for _, row in rows} == {1, 3}


@pytest.mark.parametrize("algorithm", FORWARD)
def test_a_running_max_and_sum_only_grow_within_a_part_of_a_line(algorithm):
    """A line is of one kernel, and has a point per key tile. The sum is compared at one scale, as l e^m."""
    figures = figures_of(run_traced(PROBLEM.with_(kv_splits=2, mask="full"), algorithm))
    for line in [line for figure in figures.values() for line in figure.data]:
        assert sorted(x for xs, _ in parts(line) for x in xs) == list(range(PROBLEM.kv_tiles))
    maxima = [parts(line) for line in figures["row max m"].data]
    for pieces in maxima:
        assert all((np.diff(x) > 0).all() and (np.diff(y) >= 0).all() for x, y in pieces)
    if "row sum l" in figures:
        for pieces, line in zip(maxima, figures["row sum l"].data, strict=True):
            for (_, largest), (_, total) in zip(pieces, parts(line), strict=True):
                assert (np.diff(total * np.exp(largest)) > 0).all()


def test_each_part_of_the_keys_has_a_line_of_its_own():
    trace = run_traced(PROBLEM.with_(kv_len=96, kv_splits=3, mask="full"), "split_kv")
    for line in figures_of(trace)["row max m"].data:
        assert [list(x) for x, _ in parts(line)] == [[0, 1], [2, 3], [4, 5]]
    assert all("markers" in line.mode for line in figures_of(trace)["row max m"].data)


def test_rows_of_packed_heads_are_named_by_head_and_query():
    trace = run_traced(PROBLEM.with_(q_len=2, q_heads=4, kv_heads=1, kv_splits=2), "split_kv")
    names = [line.name for line in figures_of(trace)["row max m"].data]
    assert [re.findall(r"\d", name) for name in (names[0], names[-1])] == [["0", "0"], ["3", "1"]]


def test_what_a_kernel_knows_from_the_start_is_not_drawn_as_running():
    """Standard attention sums a whole row at once: no curve of l. A file may have no distances."""
    standard = run_traced(PROBLEM, "standard")
    assert list(figures_of(standard)) == ["row max m", DISTANCE]
    assert list(figures_of(replace(standard, output_distance=None))) == ["row max m"]


def test_infinite_values_leave_the_axis_to_the_finite_ones():
    trace = hand_built(PROBLEM)
    distance = trace.output_distance.copy()
    distance[0] = np.inf
    figure = figures_of(replace(trace, output_distance=distance), [(0, 63)])[DISTANCE]
    (line,) = figure.data
    assert line.mode == "lines+markers"
    finite = figures_of(trace, [(0, 63)])[DISTANCE].layout.yaxis
    assert figure.layout.yaxis.type == "log"
    assert set(figure.layout.yaxis.tickvals or ()) <= set(finite.tickvals or ())
    nowhere = figures_of(replace(trace, output_distance=np.full_like(distance, np.inf)))[DISTANCE]
    assert nowhere.layout.yaxis.type != "log"


@pytest.mark.parametrize("algorithm", BACKWARD)
@pytest.mark.parametrize("problem", [PROBLEM, GROUPED], ids=["one head", "grouped"])
def test_a_line_of_a_gradient_belongs_to_one_tile_and_ends_at_the_final_value(algorithm, problem):
    """A key tile's sum takes in the query heads that share it."""
    trace = run_traced(problem, algorithm)
    figures = gradient_figures(trace, theme.LIGHT)
    sums = [each.result for kernel in algorithm_of(trace).kernels for each in kernel.sums]
    assert set(figures) == {GRADIENTS[result][0] for result in sums}
    results = {"dQ": trace.d_query, "dK": trace.d_key, "dV": trace.d_value}
    for name, figure in figures.items():
        for line in figure.data:
            word, tile = line.name.rsplit(" ", 1)
            assert word == ("query tile" if name == "dQ" else "key tile")
            if name != "dQ":
                assert len(line.x) == problem.group_size * visiting_tiles(problem, int(tile)).count
            values = [float(text.replace("−", "-")) for text in line.text]
            assert values[-1] <= 0.01 * np.abs(results[name]).max()


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
