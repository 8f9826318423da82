"""Play, pause, step and keys, on a clock that the test moves."""

import pytest

pytestmark = pytest.mark.browser


# A clock that the test moves: `pass(ms)` runs the frames and timers that fall due.
CLOCK = """
  let now = 0, frame = null, timer = null;
  const clock = {
    now: () => now,
    requestFrame: (callback) => (frame = callback),
    cancelFrame: () => (frame = null),
    later: (callback, ms) => (timer = { callback, due: now + ms }),
    cancel: () => (timer = null),
  };
  const pass = (ms) => {
    for (const end = now + ms; now < end; ) {
      now = Math.min(now + 16, end);
      const callback = frame;
      frame = null;
      callback?.(now);
      if (timer && timer.due <= now) { const { callback: ring } = timer; timer = null; ring(); }
    }
  };
  const log = [];
  const said = (word) => () => log.push(word);
  const owner = { draw: said("draw"), refresh: said("refresh"), settled: said("settled") };
  const track = { position: 0, ticksPerStep: 1, last: () => 10, clamp: (p) => Math.max(0, Math.min(10, p)),
                  moved: (d) => track.clamp(track.position + d), played: () => track.position + 1 };
  const player = new transport.Transport(owner, clock);
  player.use(track);
"""


def moves(run, script):
    return run(f"(() => {{ {CLOCK} {script} }})()")


def test_playback_goes_at_its_speed_stops_at_the_end_and_starts_again(run):
    script = """
      player.speed = 4;
      player.toggle();
      pass(1008);
      const afterOneSecond = track.position;
      pass(3000);
      const end = [track.position, player.playing];
      player.toggle();
      pass(300);
      return [afterOneSecond, end, track.position, player.playing];
    """
    assert moves(run, script) == [4, [10, False], 1, True]


def test_a_key_stops_playback_where_it_goes(run):
    script = """
      player.toggle();
      pass(500);
      player.action("ArrowLeft")();
      const stopped = [track.position, player.playing];
      pass(1000);
      player.action("End")();
      const end = track.position;
      player.action("Home")();
      return [stopped, end, track.position, player.action("x") === undefined];
    """
    assert moves(run, script) == [[3, False], 10, 0, True]


def test_the_owner_hears_once_when_a_position_has_settled_and_never_while_it_plays(run):
    script = """
      player.step(1);
      pass(300);
      player.step(1);
      pass(300);
      const early = log.includes("settled");
      pass(200);
      const settled = log.filter((word) => word === "settled").length;
      player.speed = 0.5;
      player.toggle();
      pass(1500);
      return [early, settled, log.filter((word) => word === "settled").length];
    """
    assert moves(run, script) == [False, 1, 1]


def test_speed_stays_between_the_slowest_and_the_fastest(run):
    script = """
      for (let i = 0; i < 20; i++) player.changeSpeed(1);
      const fastest = player.speed;
      for (let i = 0; i < 20; i++) player.changeSpeed(-1);
      return [fastest, player.speed];
    """
    assert moves(run, script) == [256, 0.5]


def test_an_owner_that_holds_keeps_the_track_from_going_on_but_not_back(run):
    script = """
      let holding = true;
      owner.holds = () => holding;
      track.position = 4;
      const press = (key) => { player.action(key)(); return [track.position, player.playing]; };
      const held = ["ArrowRight", " ", "End", "ArrowLeft"].map(press);
      holding = false;
      return [...held, press("ArrowRight"), press("End")];
    """
    assert moves(run, script) == [[4, False], [4, False], [4, False], [3, False], [4, False], [10, False]]
