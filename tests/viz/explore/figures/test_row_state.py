"""Row state of the online softmax and distances of the gradients: one line per row."""

from kernels.problem import AttentionProblem
from tests.viz.player.test_data import hand_built
from viz.explore.figures.row_state import row_state_figures, spread_rows
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


def test_row_state_draws_one_line_per_row_over_the_tiles_it_visited():
    trace = hand_built(PROBLEM)
    figures = row_state_figures(trace, [(0, 0), (0, 63)], theme.LIGHT)
    assert list(figures) == ["row max m", "row sum l", "distance from the final output"]
    lines = figures["row sum l"].data
    assert [line.name for line in lines] == ["row 0", "row 63"]
    assert list(lines[0].x) == [0]
    assert list(lines[1].y) == [16, 32, 48, 64]


def test_row_state_leaves_out_what_was_not_recorded():
    trace = hand_built(PROBLEM)
    object.__setattr__(trace, "output_distance", None)
    assert list(row_state_figures(trace, [(0, 0)], theme.LIGHT)) == ["row max m", "row sum l"]


def test_rows_are_spread_from_the_first_to_the_last():
    assert spread_rows(hand_built(PROBLEM), 3) == [(0, 0), (0, 32), (0, 63)]
