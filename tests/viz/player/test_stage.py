"""The grid of tiles: what a partly masked tile shows."""

import itertools
import re

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from tests.viz.player.runs import GPU
from tests.viz.player.test_data import PROBLEM, hand_built
from viz.player.data import player_data

pytestmark = pytest.mark.browser

RECORDED = """((draw) => {
  const drawn = [];
  const fillRect = (...box) => drawn.push([context.globalAlpha, ...box]);
  const measureText = () => ({ width: 10 });
  const told = { get: (known, name) => known[name] ?? (() => {}) };
  const context = new Proxy({ isVector: true, globalAlpha: 1, fillRect, measureText }, told);
  draw(context);
  return drawn;
})"""
"""The opacity and the box of each rectangle that is drawn."""


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


@pytest.mark.parametrize("heads", [2, 48, 683, 4096])
def test_the_grids_of_all_heads_lie_beside_each_other_on_a_phone(run, heads):
    script = """layout.headLayouts(366, 250, { kvTiles: 4, qTiles: 3 }, Array(given).fill(0))
      .map((grid) => ["x", "y", "width", "height", "cellWidth", "cellHeight"].map((name) => grid[name]))"""
    grids = run(script, heads)
    assert len(grids) == heads
    assert min(min(grid) for grid in grids) > 0
    ends = [(x + width, y + height) for x, y, width, height, *_ in grids]
    assert max(x for x, _ in ends) <= 366
    assert max(y for _, y in ends) <= 250
    assert all(across == pytest.approx(width / 4) for _, _, width, _, across, _ in grids)
    in_a_row = [grid for grid in grids if grid[1] == grids[0][1]]
    assert all(one[0] + one[2] < other[0] for one, other in itertools.pairwise(in_a_row))


@pytest.mark.parametrize(("room", "words"), [(40, ["head 9", "head 10"]), (20, ["9", "10"]), (10, [])])
def test_heads_are_named_as_their_room_allows(run, data, room, words):
    script = """(() => {
      const said = [];
      const measureText = (words) => ({ width: 5 * words.length });
      const context = { measureText, fillText: (words) => said.push(words) };
      const layouts = [0, 1].map((i) => ({ x: given.room * i, y: 14, room: given.room }));
      strips.nameHeads(context, layouts, [9, 10], model.makeModel(given.data), { muted: "" });
      return said;
    })()"""
    assert run(script, {"data": data, "room": room}) == words


def test_tiles_narrower_than_a_pixel_are_drawn_together_and_the_strip_has_no_gap(run):
    trace = hand_built(PROBLEM.with_(q_len=16, kv_len=16 * 5000, mask="full"))
    script = """(() => {
      const m = model.makeModel(given);
      const t = new timeline.Timeline(m);
      t.goToText("1600.3");
      const at = { ...t.cursor(), head: 0, kernel: 0, isDone: (step) => step < 1600 };
      const grid = { x: 40.3, y: 50, cellWidth: 0.12, cellHeight: 90, width: 600, height: 90, room: 700 };
      return %s((context) => strips.drawStrips(context, grid, m, {}, at));
    })()"""
    drawn = run(script % RECORDED, player_data(trace, "here", GPU))
    keys = [box for box in drawn if box[2] == drawn[0][2]]  # K lies above V
    assert len(keys) <= 600
    ends = [x + width for _, x, _, width, _ in keys]
    assert [x for _, x, *_ in keys[1:]] == ends[:-1]
    assert (keys[0][1], ends[-1]) == (40, 640)
    (loaded,) = (x for level, x, *_ in keys if level == 1)
    assert loaded == pytest.approx(40.3 + 600 * 2 * 1600 / 5000, abs=2)  # a step is about two tiles


def test_a_large_grid_is_drawn_in_rows_of_what_the_mask_skips(run):
    """Each tile alone would be a million of rectangles, at every step back."""
    script = """(() => {
      const m = { kinds: new Uint8Array(400 * 400), kvTiles: 400, qTiles: 400 };
      for (let q = 0; q < 400; q++) m.kinds.fill(2, 400 * q, 400 * q + q + 1);
      const layouts = [{ x: 0, y: 0, cellWidth: given, cellHeight: given }];
      return %s((context) => stage.drawAllDone(context, { layouts, model: m, palette: {}, steps: [] }));
    })()"""
    _, *small = run(script % RECORDED, 2)
    assert small == [[1, 2 * q + 2, 2 * q, 798 - 2 * q, 2] for q in range(399)]
    _, *large = run(script % RECORDED, 6)  # each tile with its cross
    assert len(large) == 400 * 399


def test_a_hidden_tile_that_was_computed_is_crossed_and_the_legend_says_so(run):
    """Crossed as those that FlashAttention-2 skips: they hide the same."""
    problem = PROBLEM.with_(q_len=32, kv_len=32, mask="causal")
    runs = [player_data(run_traced(problem, name), "here", GPU) for name in ("standard", "flash2")]
    script = """(() => {
      const [m, other] = given.map(model.makeModel);
      const steps = Array.from({ length: m.count }, (_, i) => i);
      const [step] = steps.filter((i) => model.tileKind(m, i) === model.KIND.hidden
        && m.kernels[m.kernel[i]].cells === "share");
      const fills = [];
      const told = { get: (known, name) => known[name] ?? (() => {}) };
      const context = new Proxy({ isVector: true, fillRect: () => fills.push(context.fillStyle) }, told);
      const grid = { x: 0, y: 0, width: 80, height: 80, cellWidth: 8, cellHeight: 8 };
      const palette = { scale: ["#000000", "#ffffff"], surface: "surface", line: "line", plain: "plain" };
      const drawn = { layouts: [], layoutOf: () => grid, model: m, palette, steps: [step] };
      stage.drawAllDone(context, drawn);
      const legend = dom.legend();
      const said = [[m], [other], [m, other]].map((models) => {
        legend.says(models);
        return legend.node.textContent;
      });
      return [fills, said];
    })()"""
    fills, said = run(script, runs)
    assert fills == ["surface", {"color": "line", "spacing": 4, "cross": True}]
    standard, flash, both = (re.search(r"weight 0(, but computed( in .)?)?", words)[0] for words in said)
    assert (standard, flash, both) == ("weight 0, but computed", "weight 0", "weight 0, but computed in A")


@pytest.mark.parametrize(("size", "shown"), [(600, "visible"), (80, "hidden")])
def test_the_legend_names_the_letters_on_the_tiles_only_if_there_are_any(run, size, shown):
    data = player_data(run_traced(PROBLEM.with_(q_len=32, kv_len=32), "standard"), "here", GPU)
    script = """(() => {
      const root = document.body.appendChild(document.createElement("div"));
      const made = new player.Player(root);
      Object.assign(made.pane.nodes.stage.style, { width: `${given.size}px`, height: `${given.size}px` });
      made.load(given.data, {});
      const entry = [...made.legend.node.children].find((each) => each.textContent.includes("on a tile"));
      const seen = getComputedStyle(entry).visibility;
      made.destroy();
      root.remove();
      return seen;
    })()"""
    assert run(script, {"data": data, "size": size}) == shown
