"""The stage's side of "What if?", with a server that answers when the test says so."""

import pytest

pytestmark = pytest.mark.browser

MADE = """
const live = [
  { name: "length", values: ["1", "2"], present: 1 },
  { name: "mask", values: ["a", "b"], present: 0 },
];
const scenes = [{ title: "zero", live }, { title: "one", live: [] }];
const asked = [];
const server = { ask: (question) => asked.push(question), destroy: () => {} };
let state = { scene: 0, beat: 0, picks: {} };
let changes = 0;
const shown = () => what.sceneOf(state).title;
const what = new what_if.WhatIf({ scenes, runs: {} }, given.isFile ? null : server, {
  pick: (scene, picks) => go({ picks: { ...state.picks, [scene]: picks } }),
  changed: () => { changes++; shown(); },
});
const go = (change) => { state = { ...state, ...change }; what.follow(state); shown(); };
const press = (...digits) => { what.toggle(); digits.forEach((digit) => what.digit(digit)); };
const answer = (said, at = asked.length - 1) => server.onAnswer({ id: asked[at].id, ...said });
go({});
"""


@pytest.fixture
def panel(run):
    return lambda script, given=None: run(f"(() => {{ {MADE} {script} }})()", given or {})


def test_two_digits_ask_and_the_scene_changes_with_the_answer(panel):
    result = panel("""
      press("1", "1");
      const before = [shown(), what.isOpen, what.line.textContent];
      answer({ waits: "running" });
      const meanwhile = [shown(), what.line.textContent];
      answer({ shown: { title: "run here" } });
      return [asked[0].scene, asked[0].picks, before, meanwhile, shown(), what.line.hidden, changes];
    """)
    assert result == [
        0,
        {"length": 0},
        ["zero", False, "Running it here …"],
        ["zero", "Running it here: running …"],
        "run here",
        True,
        1,
    ]


def test_picks_add_up_and_0_takes_all_of_them_back(panel):
    result = panel("""
      press("1", "1"); answer({ shown: { title: "first" } });
      press("2", "2"); answer({ shown: { title: "second" } });
      const picks = [asked[1].picks, shown()];
      press("1", "2");  // the scene's own length
      answer({ shown: { title: "third" } });
      picks.push(asked[2].picks, shown());
      press("0");
      return [...picks, shown(), asked.length];
    """)
    assert result == [{"length": 0, "mask": 1}, "second", {"mask": 1}, "third", "zero", 3]


def test_what_was_run_is_not_asked_for_again(panel):
    result = panel("""
      press("1", "1"); answer({ shown: { title: "first" } });
      press("0"); press("1", "1");
      return [asked.length, shown()];
    """)
    assert result == [1, "first"]


def test_after_a_failure_the_last_picture_stays(panel):
    result = panel("""
      press("1", "1"); answer({ failed: "No memory." });
      const first = [shown(), state.picks[0], what.line.textContent];
      press("1", "1"); answer({ shown: { title: "first" } });
      press("2", "2"); answer({ failed: "No memory." });
      return [first, shown(), state.picks[0]];
    """)
    assert result == [["zero", {}, "No memory. The picture stays as it was."], "first", {"length": 0}]


def test_a_scene_that_is_left_gives_its_question_up_and_asks_anew_when_it_comes_back(panel):
    result = panel("""
      press("1", "1"); go({ beat: 1 });
      const sameScene = asked.length;
      go({ scene: 1, beat: 0 });
      const left = [asked.at(-1), what.line.hidden];
      answer({ shown: { title: "too late" } }, 0);
      const elsewhere = [shown(), changes];
      go({ scene: 0 });
      return [sameScene, left, elsewhere, asked.at(-1).picks, what.line.textContent, shown()];
    """)
    left = [{"leaves": True}, True]
    assert result == [1, left, ["one", 0], {"length": 0}, "Running it here …", "zero"]


def test_what_was_picked_and_taken_back_is_given_up(panel):
    result = panel("""
      press("1", "1"); press("0"); answer({ shown: { title: "too late" } }, 0);
      return [asked.at(-1), shown(), changes, what.line.hidden];
    """)
    assert result == [{"leaves": True}, "zero", 0, True]


def test_a_scene_without_choices_and_a_file_say_so(panel):
    words = panel("go({ scene: 1 }); what.toggle(); return [what.isOpen, what.line.textContent];")
    assert words == [
        False,
        "What if? has no choices here: the talk's file does not mark this scene live.",
    ]
    words = panel("what.toggle(); return [what.isOpen, what.line.textContent];", {"isFile": True})
    assert words == [False, "What if? needs the app, in which kernels run. This is a file."]


def test_a_digit_that_names_nothing_is_answered_with_those_that_do(panel):
    result = panel("""
      press("7");
      const words = [what.line.textContent];
      what.digit("1");
      words.push(what.line.textContent);
      what.digit("9");
      words.push(what.line.textContent);
      const still = [what.isOpen, asked.length];
      go({ scene: 1 });
      return [words, still, what.isOpen, what.line.hidden];
    """)
    first = "7 is not a choice: press 1 to 2 for what changes, 0 to go back."
    second = "9 is not a choice: press 1 to 2 for a length, 0 to go back."
    assert result == [[first, "", second], [True, 0], False, True]
