"""The player of one run as a whole, without a page around it."""

import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from tests.viz.player.runs import GPU
from viz.player.data import player_data

pytestmark = pytest.mark.browser

PLAYED = """(async (data, state, look) => {
  const root = document.body.appendChild(document.createElement("div"));
  const shown = new player.Player(root);
  shown.load(data, state);
  const seen = await look(shown);
  shown.destroy();
  root.remove();
  return seen;
})"""
"""What a look at a player of some data in some state sees."""


def test_words_that_stay_the_same_are_not_said_again(run, data):
    look = """async (shown) => {
      const told = { childList: true, characterData: true, subtree: true };
      const changes = [];
      const observer = new MutationObserver((records) => changes.push(...records));
      for (const name of ["fa-readout", "fa-said", "fa-told-here", "fa-count"])
        observer.observe(shown.root.querySelector(`.${name}`), told);
      const counts = [];
      for (const move of [() => shown.draw(), () => shown.transport.step(1)]) {
        move();
        await null;
        counts.push(changes.splice(0).length);
      }
      return counts;
    }"""
    same, other = run(f"{PLAYED}(given, {{ step: '2', unit: 'phase' }}, {look})", data)
    assert same == 0
    assert other > 0


def test_what_the_keys_point_at_in_the_numbers_is_said(run):
    """The words about the cells come back once nothing is pointed at."""
    trace = run_traced(PRESETS["tiny"].problem, "flash2", row=1)
    look = """({ microscope: { about, pointed, strips } }) => {
      const seen = () => [pointed.textContent, pointed.role, about.hidden];
      strips.inspect(strips.strips[0], 0);
      const first = seen();
      strips.inspect(null);
      return [first, seen()];
    }"""
    state = "{ step: '1', open: 'tile' }"
    pointing, after = run(f"{PLAYED}(given, {state}, {look})", player_data(trace, "here", GPU))
    assert pointing[0].startswith("Q, column 0: ")
    assert pointing[1:] == ["status", True]
    assert after == ["", "status", False]


def test_the_legend_of_the_numbers_says_what_a_minus_means(run):
    """A talk shows no other words about the cells."""
    look = """({ microscope: { figure, legend } }) => {
      const minus = legend.querySelector(".fa-negative");
      return [figure.querySelectorAll(".fa-negative").length, minus?.parentElement.textContent];
    }"""
    trace = run_traced(PRESETS["tiny"].problem, "flash2")
    data = player_data(trace, "here", GPU)
    marked, said = run(f"{PLAYED}(given, {{ step: '1', open: 'tile' }}, {look})", data)
    assert marked > 0
    assert said == "negative"


@pytest.mark.parametrize(("asked", "is_kept"), [("", False), ("opened.pickNext(-1);", True)])
def test_a_row_that_the_reader_did_not_pick_is_let_go_with_its_tile(run, asked, is_kept):
    """Else the next tile that is opened would be one that holds it, and not the one that the reader sees."""
    look = f"""(shown) => {{
      const {{ opened, pane, timeline }} = shown;
      opened.toggle();
      {asked}
      const told = pane.pinnedText();
      opened.toggle();
      const after = pane.pinned && pane.pinnedText();
      timeline.position = pane.model.phaseStart[5];
      opened.toggle();
      return [told, after, timeline.cursor().step];
    }}"""
    problem = AttentionProblem(q_len=96, kv_len=96, head_dim=16, block_m=32, block_n=32, mask="causal")
    data = player_data(run_traced(problem, "flash2"), "here", GPU)  # steps: tile 0: key 0; 1: 0, 1; 2: ...
    told, after, step = run(f"{PLAYED}(given, {{ step: '2' }}, {look})", data)
    assert told.startswith("0.")
    assert after == (told if is_kept else None)
    assert step == (2 if is_kept else 4)


def test_moments_are_explained_where_they_are_counted(run, data):
    look = """(shown) => ["one", "gpu"].map((order) => {
      shown.setOrder(order);
      return [shown.controls.rate, shown.controls.count, shown.slider].map(({ title }) => title);
    })"""
    one, gpu = run(f"{PLAYED}(given, {{}}, {look})", data)
    assert one == ["", "", ""]
    assert len(set(gpu)) == 1
    assert gpu[0].startswith("A moment is when one or more steps begin.")


@pytest.mark.parametrize("place", ["1", "2", "3"])
def test_the_dots_of_the_curves_stay_inside_of_their_strips(run, data, place):
    """Also at the ends of a scale, such as an alpha of 1."""
    look = """(shown) => {
      const [boxes, dots] = [[], []];
      const note = { fillRect: (...box) => boxes.push(box), arc: (...dot) => dots.push(dot) };
      const measureText = () => ({ width: 10 });
      const told = { get: (known, name) => known[name] ?? (() => {}) };
      const canvas = shown.aside.rows;
      Object.assign(canvas.style, { display: "block", width: "300px", height: "160px" });
      const paper = { context: new Proxy({ ...note, measureText }, told), x: 0, y: 0, scale: 1 };
      draw.drawElsewhere(new Map([[canvas, paper]]), () => shown.draw());
      return [boxes.filter(([x, , wide]) => x > 90 && wide > 100), dots.map(([, y, r]) => [y - r, y + r])];
    }"""
    boxes, dots = run(f"{PLAYED}(given, {{ step: '{place}' }}, {look})", data)
    assert dots
    for top, bottom in dots:
        assert any(y <= top and bottom <= y + high for _, y, _, high in boxes), (top, bottom, boxes)
