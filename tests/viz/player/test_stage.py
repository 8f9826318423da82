"""The grid of tiles: what a partly masked tile shows."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from tests.viz.player.runs import GPU
from tests.viz.player.test_data import PROBLEM
from viz.player.data import player_data

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("algorithm", "shape"),
    [
        ("flash2", {}),
        ("flash2", {"block_m": 32, "block_n": 16}),
        ("flash2", {"block_m": 16, "block_n": 64}),
        ("flash2", {"q_len": 5, "kv_len": 40, "block_n": 64}),
        ("flash2", {"mask": "window", "window_left": 9, "window_right": 3, "q_len": 30}),
        ("flash1", {"q_len": 70}),
        ("split_kv", {"q_len": 3, "q_heads": 4, "kv_heads": 1, "kv_splits": 2}),
    ],
    ids=str,
)
def test_a_partly_masked_tile_shows_exactly_the_keys_that_its_rows_see(run, algorithm, shape):
    problem = PROBLEM.with_(**{"q_len": 50, "kv_len": 60, "mask": "causal"} | shape)
    data = player_data(run_traced(problem, algorithm), "here", GPU)
    script = """(() => {
      const m = model.makeModel(given);
      const context = document.createElement("canvas").getContext("2d");
      const { block_m, block_n } = m.data.problem;
      const cells = [];
      for (let step = 0; step < m.count; step++) {
        if (m.kernel[step] || m.head[step] || model.tileKind(m, step) !== model.KIND.partial) continue;
        stage.visiblePath(context, m, step, { x: 3, y: 7, w: 5 * block_n, h: 4 * block_m });
        for (let row = 0; row < block_m; row++) {
          for (let key = 0; key < block_n; key++) {
            const shown = context.isPointInPath(3 + 5 * (key + 0.5), 7 + 4 * (row + 0.5));
            cells.push([m.q[step] * block_m + row, m.kv[step] * block_n + key, shown]);
          }
        }
      }
      return cells;
    })()"""
    cells = run(script, data)
    rows = ALGORITHMS[algorithm].rows(problem)
    assert cells
    for row, key, shown in cells:
        if row < rows:
            first, end = problem.band.visible_keys(row % problem.q_len)
            assert shown == (first <= key < end), (row, key)


def test_a_low_tile_has_two_stairs_per_pixel_however_many_rows_it_has(run, data):
    script = """(() => {
      const m = model.makeModel(given);
      const corners = [];
      const context = { beginPath() {}, closePath() {}, lineTo: (x, y) => corners.push([x, y]) };
      stage.visiblePath(context, m, 0, { x: 0, y: 0, w: 16, h: 3 });
      return corners;
    })()"""
    corners = run(script, data)
    assert len(corners) == 2 * 2 * 6  # 6 stairs, two corners each at the right and at the left
    assert [x for x, _ in corners[:12:2]] == [2, 5, 7, 10, 13, 15]  # of the row in the middle of each stair
    assert {x for x, _ in corners[12:]} == {0}
