"""Positions of the player: steps, phases, programs, moments."""

from dataclasses import replace

import pytest

from tests.viz.player.runs import GPU
from tests.viz.player.test_data import PROBLEM, hand_built
from viz.player.data import player_data

pytestmark = pytest.mark.browser


TIMELINE = "const t = new timeline.Timeline(model.makeModel(given))"


def test_arrows_go_by_tile_phase_and_program_and_come_back(run, data):
    script = f"""(() => {{
      {TIMELINE};
      const places = [];
      for (const [unit, direction] of [["tile", 1], ["tile", 1], ["phase", 1], ["phase", 1], ["program", 1],
                                       ["program", 1], ["tile", -1], ["program", -1], ["program", -1]]) {{
        t.unit = unit;
        t.position = t.moved(direction);
        places.push(t.text());
      }}
      return places;
    }})()"""
    assert run(script, data) == ["1", "2", "2.1", "2.2", "3", "6", "5", "3", "1"]


def test_a_place_in_words_leads_back_to_the_same_place(run, data):
    script = f"""(() => {{
      {TIMELINE};
      const wrong = [];
      for (const order of ["one", "gpu"]) {{
        t.order = order;
        for (let position = 0; position <= t.last(); position++) {{
          t.order = order;
          t.position = position;
          const words = t.text();
          t.goToText("0");
          t.goToText(words);
          if (t.position !== position || t.order !== order) wrong.push(words);
        }}
      }}
      return wrong;
    }})()"""
    assert run(script, data) == []


@pytest.mark.parametrize(
    ("words", "place"), [("1e9", "0"), ("9999", "10"), ("gpu:999", "gpu:5"), ("x", "0"), ("", "0")]
)
def test_a_place_that_is_not_there_is_the_nearest_or_the_first(run, data, words, place):
    script = (
        f"(() => {{ {TIMELINE.replace('given', 'given.data')}; t.goToText(given.words); return t.text() }})()"
    )
    assert run(script, {"data": data, "words": words}) == place


def test_at_a_moment_of_the_gpu_the_steps_that_have_ended_are_done(run, data):
    trace = hand_built(PROBLEM, clock=True)
    script = f"""(() => {{
      {TIMELINE};
      t.order = "gpu";
      t.position = 2;
      const at = t.cursor();
      return [at.time, Array.from({{ length: t.model.count }}, (_, i) => t.isDone(at, i))];
    }})()"""
    time, done = run(script, data)
    assert time == 100
    assert done == (trace.end_ns <= 100).tolist()


def test_the_cursor_tells_step_and_phase_of_every_position(run, data):
    script = f"""(() => {{
      {TIMELINE};
      return [t.last(), t.model.phases.map((phases) => phases.map((phase) => phase.name)),
              Array.from({{ length: t.last() + 1 }}, (_, position) => {{
                t.position = position;
                const {{ phase, ...cursor }} = t.cursor();
                return {{ ...cursor, phase: phase === null ? null : phase.name ?? "no phase" }};
              }})];
    }})()"""
    last, phases, cursors = run(script, data)
    assert cursors[0] == {"step": -1, "phase": None, "done": 0, "started": False, "finished": False}
    expected = [
        {"step": step, "phase": name, "done": step + complete, "complete": complete, "started": True}
        for step, names in enumerate(phases)
        for name in names
        for complete in [name == names[-1]]
    ]
    assert last == len(expected)
    assert cursors[1:] == [
        cursor | {"finished": position == last} for position, cursor in enumerate(expected, start=1)
    ]


def test_a_step_without_phases_is_done_as_soon_as_it_is_reached(run, data):
    """Of a kernel that has none for it: it takes one position, in which no phase is shown."""
    without = data | {"kernels": [kernel | {"phases": [[], [], []]} for kernel in data["kernels"]]}
    script = f"""(() => {{
      {TIMELINE};
      const onwards = [0, 1, 2].map((position) => Object.assign(t, {{ position }}).moved(1));
      t.position = 3;
      return [t.cursor(), t.text(), onwards];
    }})()"""
    cursor = {"step": 2, "phase": None, "done": 3, "complete": True, "started": True, "finished": False}
    assert run(script, without) == [cursor, "3", [1, 2, 3]]


@pytest.mark.parametrize(
    ("unit", "place", "back", "on"),
    [
        ("tile", "0", "0", "1"),
        ("tile", "2", "1", "3"),
        ("tile", "1.3", "1", "2"),
        ("tile", "10", "9", "10"),
        ("phase", "0", "0", "0.1"),
        ("phase", "1.1", "1", "1.2"),
        ("phase", "10", "9.8", "10"),
        ("program", "0", "0", "1"),
        ("program", "1.3", "1", "3"),
        ("program", "2", "1", "3"),
        ("program", "3", "1", "6"),
        ("program", "10", "6", "10"),
    ],
)
def test_an_arrow_goes_to_the_next_edge_of_its_unit_and_never_beyond_the_ends(
    run, data, unit, place, back, on
):
    script = f"""(() => {{
      {TIMELINE.replace("given", "given.data")};
      t.unit = given.unit;
      return [-1, 1, 0].map((direction) => {{
        t.goToText(given.place);
        t.position = direction ? t.moved(direction) : t.played();
        return t.text();
      }});
    }})()"""
    assert run(script, {"data": data, "unit": unit, "place": place}) == [back, on, on]


def test_moments_are_the_distinct_starts_and_one_more_for_the_end(run, data):
    """Steps start at 0, 100, 200 and 300 and take 50 each."""
    script = f"""(() => {{
      {TIMELINE};
      t.order = "gpu";
      return [t.moments.times, t.moments.last, t.moments.measured, t.last(), [0, 1, 4, 5].map((position) => {{
        t.position = position;
        const at = t.cursor();
        return [at.time, at.started, at.finished, at.step, at.done, at.phase,
                [0, 2, 9].map((step) => t.isDone(at, step)), t.moved(1), t.moved(-1)];
      }})];
    }})()"""
    times, last, measured, places, cursors = run(script, data)
    assert (times, last, measured, places) == ([0, 100, 200, 300], 350, True, 5)
    assert cursors == [
        [-1, False, False, -1, 0, None, [False, False, False], 1, 0],
        [0, True, False, -1, 0, None, [False, False, False], 2, 0],
        [300, True, False, -1, 0, None, [True, True, False], 5, 3],
        [350, True, True, -1, 0, None, [True, True, True], 5, 4],
    ]


def test_moments_are_in_the_order_of_time_whatever_the_order_of_the_programs(run):
    """The last program starts first. At every speed a tick of playback is one moment or step."""
    trace = hand_built(PROBLEM, clock=True)
    later = replace(trace, start_ns=1000 - 100 * trace.program, end_ns=1050 - 100 * trace.program)
    script = f"(() => {{ {TIMELINE}; return [t.moments.times, t.moments.last, t.ticksPerStep] }})()"
    assert run(script, player_data(later, "", GPU)) == [[700, 800, 900, 1000], 1050, 1]


def test_a_step_that_starts_and_ends_at_once_lasts_to_the_next_tick(run, data):
    clock = data["clock"] | {"end": data["clock"]["start"]}
    script = f"(() => {{ {TIMELINE}; return [[...t.moments.start], [...t.moments.end], t.moments.last] }})()"
    start, end, last = run(script, data | {"clock": clock})
    assert end == [time + 1 for time in start]
    assert last == 301


def test_a_step_is_done_when_the_cursor_has_passed_it(run, data):
    script = f"""(() => {{
      {TIMELINE};
      t.goToText("2.3");
      const at = t.cursor();
      t.goToText("10");
      const done = [0, 1, 2, 3].map((step) => t.isDone(at, step));
      return [done, t.isDone(t.cursor(), 9), t.clamp(1.6), t.clamp(-3)];
    }})()"""
    assert run(script, data) == [[True, True, False, False], True, 2, 0]


# --- transport ---
