"""Two runs on one clock."""

import pytest

from tests.viz.player.runs import GPU
from tests.viz.player.test_data import PROBLEM, hand_built
from viz.player.data import duel_data

pytestmark = pytest.mark.browser


def test_a_race_gives_both_runs_the_steps_that_fit_its_time(run):
    traces = [hand_built(PROBLEM), hand_built(PROBLEM.with_(mask="full"))]
    data = duel_data((traces[0], "a"), (traces[1], "b"), GPU)
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
    equal, ends, half, finished, text = run(script, data)
    assert equal == ["race:0", 16, 1]
    assert half == ends
    assert finished == [10, 16]
    assert text == "race:1000"
