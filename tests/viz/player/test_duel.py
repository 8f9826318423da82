"""Two runs on one clock."""

import pytest

from tests.viz.player.runs import GPU
from tests.viz.player.test_data import PROBLEM, hand_built
from viz.player import data
from viz.player.selection import select_steps

pytestmark = pytest.mark.browser

SHOWN = """((data, look) => {
  const root = document.body.appendChild(document.createElement("div"));
  const shown = new duel.Duel(root);
  shown.load(data, {});
  const seen = look(shown);
  shown.destroy();
  root.remove();
  return seen;
})"""
"""What a look at a duel of some data sees."""


def test_a_race_gives_both_runs_the_steps_that_fit_its_time(run):
    traces = [hand_built(PROBLEM), hand_built(PROBLEM.with_(mask="full"))]
    both = data.duel_data((traces[0], "a"), (traces[1], "b"), GPU)
    script = """(() => {
      const race = new duel.Race(given.costs.map((text) => model.decode(text, Float64Array)));
      const start = race.text();
      race.order = "steps";
      const equal = [start, race.last(), race.moved(1)];
      race.goToText("race:500");
      const ends = race.costs.map((costs) => costs.filter((end) => end <= race.now() * (1 + 1e-9)).length);
      const half = [race.done(0), race.done(1)];
      race.goToText("race:9999");
      return [equal, ends, half, [race.done(0), race.done(1)], race.text()];
    })()"""
    equal, ends, half, finished, text = run(script, both)
    assert equal == ["race:0", 16, 1]
    assert half == ends
    assert finished == [10, 16]
    assert text == "race:1000"


def test_a_duel_says_what_of_its_runs_is_left_out(run, monkeypatch):
    traces = [hand_built(PROBLEM.with_(q_heads=heads, kv_heads=heads)) for heads in (1, 2)]
    monkeypatch.setattr(data, "select_steps", lambda *given: select_steps(*given, limit=10))
    both = data.duel_data((traces[0], "here"), (traces[1], "there"), GPU)
    look = "(shown) => [shown.root.querySelector('.fa-notes').textContent, shown.caption.foot]"
    assert run(f"{SHOWN}(given, {look})", both) == 2 * ["A: here · B: there · 1 of 2 heads are drawn"]


def test_the_scale_of_colours_is_that_of_the_runs_at_hand(run):
    """One run stays, the other one is replaced by another."""
    short, middle, long = (hand_built(PROBLEM.with_(mask="full", kv_len=keys)) for keys in (64, 128, 256))
    script = """(() => {
      const scales = (shown) => shown.panes.map((pane) => 1 / pane.model.scaleShare);
      return %s(given[0], (shown) => {
        const first = scales(shown);
        shown.load(given[1], {});
        return [first, scales(shown)];
      });
    })()"""
    duels = [data.duel_data((middle, ""), (other, ""), GPU) for other in (short, long)]
    first, second = run(script % SHOWN, duels)
    assert first == pytest.approx([4, 4], rel=1e-3)
    assert second == pytest.approx([8, 8], rel=1e-3)


def test_a_click_in_a_duel_picks_no_row_and_no_tile_says_so(run):
    trace = hand_built(PROBLEM)
    script = """%s(given, ({ panes }) => {
      const { stage } = panes[0].nodes;
      const { x, y, width, height } = stage.getBoundingClientRect();
      const at = { clientX: x + width / 2, clientY: y + 0.7 * height };
      ["mousemove", "click"].forEach((name) => stage.dispatchEvent(new MouseEvent(name, at)));
      return [stage.title, panes[0].pinned];
    })"""
    words, pinned = run(script % SHOWN, data.duel_data((trace, ""), (trace, ""), GPU))
    assert words.startswith("query tile ")
    assert "Click" not in words
    assert pinned is None


def test_a_duel_and_each_of_its_runs_have_a_name_for_those_who_do_not_see_it(run):
    traces = [hand_built(PROBLEM), hand_built(PROBLEM.with_(mask="full"))]
    look = "({ root }) => [root, ...root.querySelectorAll('[role=group]')].map((node) => node.ariaLabel)"
    both = data.duel_data((traces[0], ""), (traces[1], ""), GPU)
    names = run(f"{SHOWN}(given, {look})", both)
    first, second = (each["title"] for each in both["runs"])
    assert names[:3] == [f"Playback of {first} against {second}", f"A: {first}", f"B: {second}"]


def test_while_it_plays_the_words_are_those_of_the_picture_and_are_said_less_often(run):
    look = """(shown) => {
      const [seen, said] = ["readout", "said"].map((name) => shown.root.querySelector(`.fa-${name}`));
      shown.panes.forEach((pane) => (pane.draw = () => {}));
      shown.setOrder("steps");
      shown.transport.playing = true;
      const start = performance.now() + 5000;
      const frames = [0, 100, 1000].map((time, i) => {
        shown.race.position = i + 1;
        shown.draw(start + time);
        return [seen, said].map((node) => node.textContent.split(" steps")[0]);
      });
      return [frames, said.ariaLive, seen.ariaLive];
    }"""
    trace = hand_built(PROBLEM)
    both = data.duel_data((trace, ""), (trace, ""), GPU)
    frames, live, quiet = run(f"{SHOWN}(given, {look})", both)
    one, two, three = ("A: 1 of 10", "A: 2 of 10", "A: 3 of 10")
    assert frames == [[one, one], [two, one], [three, three]]
    assert live == "polite"
    assert quiet is None
