"""What an animation shows when: the shots of a span of steps, at the player's speed."""

import itertools

import pytest

pytestmark = pytest.mark.browser

SHOTS = """((asked) => {
  const track = { position: 3, ticksPerStep: 1, played: () => Math.min(track.position + 1, 40) };
  const owner = {
    transport: { track, speed: asked.speed },
    get transitionMs() { return asked.changing === track.position ? 500 / asked.speed : 0; },
  };
  return { ...film.shotsOf(owner, asked.from, asked.to), standing: track.position };
})(given)"""


def shots(run, speed, start, end, **more):
    return run(SHOTS, {"speed": speed, "from": start, "to": end} | more)


def test_each_step_has_its_time_and_the_last_one_stands(run):
    made = shots(run, 4, 2, 6)
    assert [shot["position"] for shot in made["shots"]] == [2, 3, 4, 5, 6]
    assert [shot["time"] for shot in made["shots"]] == [0, 250, 500, 750, 1000]
    assert made["duration"] == 2000
    assert shots(run, 0.5, 0, 1)["duration"] == 4000
    assert made["standing"] == 3  # the player is where it was


def test_a_span_of_one_step_is_a_picture_that_stands(run):
    made = shots(run, 8, 5, 5)
    assert [shot["position"] for shot in made["shots"]] == [5]
    assert made["duration"] == 1000


def test_the_span_ends_where_it_was_asked_to_although_a_tick_goes_further(run):
    made = run(SHOTS.replace("track.position + 1", "track.position + 3"), {"speed": 1, "from": 0, "to": 7})
    assert [shot["position"] for shot in made["shots"]] == [0, 3, 6, 7]


def test_steps_that_are_too_fast_for_a_screen_are_left_out_but_never_the_last(run):
    made = shots(run, 256, 0, 40)
    times = [shot["time"] for shot in made["shots"]]
    assert all(late - early >= 1000 / 60 - 1e-3 for early, late in itertools.pairwise(times))
    assert made["shots"][0]["position"] < 5
    assert made["shots"][-1]["position"] == 40
    assert made["duration"] == pytest.approx(40 * 1000 / 256 + 1000)


def test_a_step_that_changes_over_time_has_a_shot_for_each_moment(run):
    made = shots(run, 2, 0, 3, changing=2)
    changing = [shot for shot in made["shots"] if shot["position"] == 2]
    assert len(changing) > 5
    assert [shot["tween"] for shot in changing] == sorted({shot["tween"] for shot in changing})
    assert (changing[0]["tween"], changing[-1]["tween"]) == (0, 1)
    assert changing[0]["time"] == 1000
    assert changing[-1]["time"] == 1250
    assert all(shot["tween"] == 1 for shot in made["shots"] if shot["position"] != 2)


def test_a_long_animation_is_told_in_minutes_with_a_way_to_a_shorter_one(run):
    short, long = run("[2500, 2_002_000].map(save.lengthWords)")
    assert short == "2.5 s."
    assert long == "33 minutes. A higher speed (]) or fewer steps make it shorter."
