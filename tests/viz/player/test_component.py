"""The entry of the Streamlit component: one player per element, in any order of calls and clean-ups."""

import pytest

from kernels.algorithms import run_traced
from tests.viz.player.runs import GPU, WINDOW
from viz.player.data import duel_data, player_data

pytestmark = pytest.mark.browser

SCRIPT = """(async () => {
  const show = (await import("/component.js")).default;
  const parentElement = document.createElement("div");
  parentElement.style.width = "900px";
  parentElement.innerHTML = '<div class="fa-player" tabindex="-1"></div>';
  document.body.append(parentElement);
  const root = parentElement.firstChild;
  root.style.height = "600px";
  const call = (run) => show({ data: { run, state: {} }, parentElement, setStateValue: () => {} });
  const press = (key) => root.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const report = () => {
    press("ArrowRight");
    return {
      players: root.querySelectorAll(".fa-controls").length,
      lines: root.querySelectorAll(".fa-line").length > 5,
      step: root.querySelector(".fa-count").textContent,
    };
  };
  const [first, second, both] = given;
  const result = await (STEPS)();
  parentElement.remove();
  return result;
})()"""


@pytest.fixture(scope="module")
def given():
    traces = [run_traced(WINDOW, name) for name in ("flash2", "flash1")]
    runs = [player_data(trace, "here", GPU) for trace in traces]
    return [*runs, duel_data((traces[0], ""), (traces[1], ""), GPU)]


def tried(run, given, steps):
    return run(SCRIPT.replace("STEPS", steps), given)


@pytest.mark.parametrize(
    "steps",
    [
        "async () => { const late = call(first); call(second); late(); return report(); }",
        "async () => { const late = call(first); late(); call(second); return report(); }",
        "async () => { const late = call(first); call(second); late(); call(second); return report(); }",
    ],
    ids=["after", "before", "again"],
)
def test_a_call_that_is_overtaken_and_cleaned_up_leaves_the_player_of_the_next(run, given, steps):
    shown = tried(run, given, steps)
    assert (shown["players"], shown["lines"]) == (1, True)
    assert shown["step"] == f"step 1 / {given[1]['steps']['count']}"


@pytest.mark.parametrize("again", ["first", "second"])
def test_the_same_run_goes_on_playing_where_it_was_and_another_does_not(run, given, again):
    steps = """async () => {
      const early = call(first); press("ArrowRight"); press("ArrowRight"); press("[");  press(" "); early();
      call(AGAIN);
      return { plays: root.querySelector('button[title^="play"]').ariaPressed === "true", ...report() };
    }"""
    shown = tried(run, given, steps.replace("AGAIN", again))
    assert shown["plays"] == (again == "first")
    assert shown["step"].startswith("step 3 /" if again == "first" else "step 1 /")


def test_after_the_last_call_is_cleaned_up_no_key_is_taken(run, given):
    steps = "async () => { call(first); const last = call(second); last(); return report(); }"
    assert tried(run, given, steps)["step"] == f"step 0 / {given[1]['steps']['count']}"


def test_a_duel_takes_the_place_of_a_player(run, given):
    steps = "async () => { call(first); call(both); return report(); }"
    shown = tried(run, given, steps)
    assert (shown["players"], shown["lines"]) == (1, False)
