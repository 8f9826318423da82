"""Row state of the online softmax and distances of the gradients: one line per row, or per tile."""

import re
from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, algorithm_of, run_traced
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visiting_tiles
from tests.anywhere import ANYWHERE
from tests.viz.player.runs import hand_built
from viz.explore.figures import DISTANCE, GRADIENTS, gradient_figures, row_state_figures, spread_rows
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")
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
    assert spread_rows(trace, 3) == [(0, 0), (0, 32), (0, 63)]
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
