"""Where a talk stands, without its drawing; a glide of the transport."""

import pytest

from tests.viz.player.test_transport import moves

pytestmark = pytest.mark.browser

SCENES = """[
  { sentence: "a", hidden: [], stops: [{ sentence: "" }, { sentence: "b" }, { sentence: "" }] },
  { sentence: "c", hidden: ["state"], stops: [{ sentence: "" }] },
]"""
PLACES = ["1.1", "1.2", "1.3", "2.1", "2.2"]


@pytest.mark.parametrize(("direction", "places"), [(1, PLACES), (-1, PLACES[::-1])])
def test_moves_go_through_every_beat_and_stop_at_the_ends(run, direction, places):
    script = f"""(() => {{
      let place = scenes.placeOfText({SCENES}, given[0]);
      const places = [];
      for (let i = 0; i < 6; i++) {{
        places.push(scenes.placeText(place));
        place = scenes.moved({SCENES}, place, given[1]);
      }}
      return places;
    }})()"""
    assert run(script, [places[0], direction]) == [*places, places[-1]]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("", "1.1"),
        ("#2", "2.1"),
        ("2.2", "2.2"),
        ("9.9", "2.2"),
        ("0.0", "1.1"),
        ("x", "1.1"),
        ("1.9", "1.3"),
    ],
)
def test_any_words_are_a_place_of_the_talk(run, words, place):
    assert run(f"scenes.placeText(scenes.placeOfText({SCENES}, given))", words) == place


def test_a_scene_that_hides_something_has_one_beat_more(run):
    assert run(f"{SCENES}.map(scenes.beatsOf)") == [3, 2]
    standing = run(f"[0, 1].map((beat) => scenes.standing({SCENES}[1], beat))")
    assert standing == [{"stop": 0, "isHidden": True}, {"stop": 0, "isHidden": False}]


def test_a_sentence_stays_until_another_stop_has_one(run):
    assert run(f"[0, 1, 2].map((stop) => scenes.sentenceAt({SCENES}[0], stop))") == ["a", "b", "b"]


def test_a_glide_ends_at_its_place_in_its_time_and_another_key_ends_it(run):
    script = """
      player.glide(8, 400);
      pass(208);
      const half = track.position;
      pass(300);
      const end = track.position;
      player.glide(0, 400);
      pass(100);
      player.goTo(9);
      pass(500);
      return [half, end, track.position];"""
    assert moves(run, script) == [4, 8, 9]


def test_windows_that_write_at_once_end_with_the_same_state(run):
    script = """(async () => {
      const [links, seen] = [[], []];
      for (const i of [0, 1, 2]) links.push(new link.Link("t", (state) => (seen[i] = state)));
      const said = (ms) => new Promise((done) => setTimeout(done, ms));
      for (let i = 0; i < 50; i++) links[i % 3].send(i);
      links[0].send("a"); links[1].send("b"); links[2].send("c");
      await said(200);
      const known = links.map((each) => each.known.state);
      const late = new link.Link("t", (state) => (seen[3] = state));
      const other = new link.Link("another talk", () => (seen[4] = "heard"));
      await said(200);
      [...links, late, other].forEach((each) => each.destroy());
      return [new Set(known).size, seen[3] === known[0], seen.length];
    })()"""
    assert run(script) == [1, True, 4]
