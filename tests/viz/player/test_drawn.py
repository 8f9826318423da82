"""The player and the duel as they are drawn, each by itself in one page of Chromium."""

from itertools import pairwise

import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from tests.anywhere import ANYWHERE
from tests.kernels.algorithms.flash3.as_if import as_if_run
from tests.lanes import hopper_lanes, plain_lanes
from tests.viz.player.runs import GPU, PROBLEM, WINDOW, hand_built, shown, traced
from viz.player import drawn
from viz.player.data import duel_data
from viz.player.drawn import select_steps
from viz.player.lanes import LanesRun, lanes_data
from viz.shared.theme import palettes_for_player

pytestmark = pytest.mark.browser

LOOKED = """(async ({ data, state = {}, look }) => {
  const root = document.body.appendChild(document.createElement("div"));
  const shown = data.runs ? new duel.Duel(root) : new player.Player(root);
  shown.load(data, state);
  const seen = await eval(look)(shown);
  shown.destroy();
  root.remove();
  return seen;
})(given)"""


@pytest.fixture(scope="module")
def look_at(run):
    """What a look sees of a player of some data in some state, or of a duel."""
    return lambda data, look, **state: run(LOOKED, {"data": data, "look": look, "state": state})


@pytest.fixture(scope="module")
def tiny():
    return traced(PRESETS["tiny"].problem)[1]


@pytest.fixture(scope="module")
def large():
    """(trace, player data) of tiles of 32 x 32, with the numbers of row 5 of each query tile."""
    problem = AttentionProblem(q_len=70, kv_len=100, head_dim=32, block_m=32, block_n=32, mask="causal")
    return traced(problem, row=5)


def both(first, second):
    return duel_data((first, "here"), (second, "there"), GPU)


def test_words_that_stay_the_same_are_not_said_again(look_at, data):
    look = """async (shown) => {
      const told = { childList: true, characterData: true, subtree: true };
      const changes = [];
      const observer = new MutationObserver((records) => changes.push(...records));
      for (const name of ["fa-said", "fa-caption", "fa-count"])
        observer.observe(shown.root.querySelector(`.${name}`), told);
      const counts = [];
      for (const move of [() => shown.draw(), shown.transport.action("ArrowRight")]) {
        move();
        await null;
        counts.push(changes.splice(0).length);
      }
      return counts;
    }"""
    same, other = look_at(data, look, step="2", unit="phase")
    assert same == 0
    assert other > 0


@pytest.mark.parametrize(("asked", "is_kept"), [("", False), ("opened.pickNext(-1);", True)])
def test_a_row_that_the_reader_did_not_pick_is_let_go_with_its_tile(look_at, asked, is_kept):
    """Else the next tile that is opened would be one that holds it, and not the one that the reader sees."""
    look = f"""(shown) => {{
      const {{ opened, pane, timeline }} = shown;
      opened.runsRows = true;
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
    _, data = traced(problem)  # steps: tile 0: key 0; 1: 0, 1; 2: ...
    told, after, step = look_at(data, look, step="2")
    assert told.startswith("0.")
    assert after == (told if is_kept else None)
    assert step == (2 if is_kept else 4)


def test_a_row_that_a_shorter_tile_lacks_gives_way_to_one_that_it_has(look_at):
    problem = AttentionProblem(q_len=50, kv_len=32, head_dim=32, block_m=32, block_n=32)
    _, data = traced(problem, row=23)
    look = "(shown) => (shown.timeline.goToText('1.2'), shown.settled(), shown.state().row)"
    assert 32 <= int(look_at(data, look, step="0.3", row="0.23", open="tile").split(".")[1]) < 50


def test_a_duel_says_what_of_its_runs_is_left_out(look_at, monkeypatch):
    traces = [hand_built(PROBLEM.with_(q_heads=heads, kv_heads=heads)) for heads in (1, 2)]
    monkeypatch.setattr(drawn, "select_steps", lambda *given: select_steps(*given, limit=10))
    look = "(shown) => [shown.root.querySelector('.fa-notes').textContent, shown.shownAs.foot]"
    for foot in look_at(both(*traces), look):
        assert foot == "A: here · B: there · 1 of 2 heads are drawn"


def test_the_scale_of_colours_is_that_of_the_runs_at_hand(run):
    """One run stays, the other one is replaced by another."""
    short, middle, long = (hand_built(PROBLEM.with_(mask="full", kv_len=keys)) for keys in (64, 128, 256))
    script = """(() => {
      const made = new duel.Duel(document.createElement("div"));
      const scales = given.map((data) => {
        made.load(data, {});
        return made.panes.map((pane) => 1 / pane.model.scaleShare);
      });
      made.destroy();
      return scales;
    })()"""
    first, second = run(script, [both(middle, short), both(middle, long)])
    assert first == pytest.approx([4, 4], rel=1e-3)
    assert second == pytest.approx([8, 8], rel=1e-3)


def test_a_click_in_a_duel_picks_no_row_and_its_parts_have_names(look_at):
    look = """({ root, panes }) => {
      const { stage } = panes[0];
      const { x, y, width, height } = stage.getBoundingClientRect();
      const at = { clientX: x + 0.25 * width, clientY: y + 0.7 * height };
      ["mousemove", "click"].forEach((name) => stage.dispatchEvent(new MouseEvent(name, at)));
      const named = [root, ...root.querySelectorAll("[role=group]")].map((node) => node.ariaLabel);
      return [stage.title, panes[0].pinned, named];
    }"""
    traces = [hand_built(PROBLEM), hand_built(PROBLEM.with_(mask="full"))]
    words, pinned, names = look_at(both(*traces), look)
    assert words.startswith("query tile ")
    assert "Click" not in words
    assert pinned is None
    assert all(names)
    assert [name[:2] for name in names[1:3]] == ["A:", "B:"]


def test_while_a_duel_plays_its_words_are_said_only_so_often_and_shown_at_once(look_at):
    look = """(shown) => {
      const [seen, said] = ["caption", "said"].map((name) => shown.root.querySelector(`.fa-${name}`));
      shown.panes.forEach((pane) => (pane.draw = () => ({ bytes: { perTensor: [], total: 0 } })));
      shown.transport.playing = true;
      const start = performance.now() + 5000;
      const frames = [0, 100, 1000].map((time, i) => {
        shown.race.position = shown.race.ends[0][i] / shown.race.longest * 1000;
        shown.draw(start + time);
        return [seen, said].map((node) => node.textContent.split(" of")[0]);
      });
      return [frames, said.ariaLive, seen.ariaLive];
    }"""
    trace = hand_built(PROBLEM)
    frames, live, quiet = look_at(both(trace, trace), look)
    assert frames == [["A: step 1", "A: step 1"], ["A: step 2", "A: step 1"], ["A: step 3", "A: step 3"]]
    assert (live, quiet) == ("polite", None)


def test_lanes_without_a_player_mark_the_tile_of_a_block_that_is_picked(run):
    lanes = lanes_data([LanesRun(made(), True) for made in (hopper_lanes, plain_lanes)])
    script = """(async () => {
      const show = (await import("/component.js")).default;
      const parentElement = document.body.appendChild(document.createElement("div"));
      parentElement.innerHTML = '<div class="fa-player"></div>';
      show({ data: { run: given }, parentElement });
      const canvas = parentElement.querySelector(".fa-lanes");
      Object.assign(canvas.style, { display: "block", width: "900px" });
      show({ data: { run: given }, parentElement });
      const said = () => parentElement.querySelector(".fa-lane-readout").textContent;
      canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "." }));
      const before = canvas.toDataURL();
      parentElement.querySelector("button[title^='zoom so that the marked']").click();
      const seen = [said().includes("query tile"), before !== canvas.toDataURL()];
      parentElement.remove();
      return seen;
    })()"""
    assert run(script, {"lanes": lanes, "palettes": palettes_for_player()}) == [True, True]


@pytest.mark.parametrize("head_dim", [64, 256])
def test_a_source_of_several_files_names_the_file_at_the_top_and_where_one_begins(run, head_dim):
    problem = AttentionProblem(q_len=300, kv_len=300, head_dim=head_dim, mask="causal")
    script = """(() => {
      const view = new aside.Aside();
      const m = model.makeModel(given);
      const file = () => view.node.querySelector(".fa-file").textContent.split("/").pop();
      const tops = m.kernels[0].phases[1].map((phase) => (view.light(m, { kernel: 0, phase }), file()));
      return [tops, [...view.node.querySelectorAll(".fa-part")].map((part) => part.textContent)];
    })()"""
    data = shown(as_if_run(problem))[1]
    tops, parts = run(script, data)
    attend = "attend_wide.py" if head_dim > 128 else "attend.py"
    softmax = "online_softmax.py" if head_dim > 128 else "softmax.py"
    assert tops == [
        *("loader.py", "products.py", "mask.py", attend),
        *(softmax, softmax, "loader.py", "products.py"),
    ]
    source = data["kernels"][0]["source"]
    files = [source["file"], *(line[-1] for part in source["lines"] for line in part)]
    begun = [file.split("/")[-1] for before, file in pairwise(files) if file != before]
    assert [words for words in parts if words.endswith(".py")] == begun
    assert {attend, softmax} < {*begun}


# --- whom the keys of a page belong to: its players, a talk, or what has the focus ---


OWNERS = """
  const did = [];
  const made = (name) => {
    const root = document.createElement("div");
    document.body.append(root);
    return { root, transport: { action: () => () => did.push(name) } };
  };
  const press = (key, target = document.body) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true });
    target.dispatchEvent(event);
    return event.defaultPrevented;
  };
"""


def test_the_keys_are_an_owners_until_it_drops_them_and_space_is_that_of_what_it_presses(run):
    """A button that was clicked by a pointer gives Space back; one that was reached by keys keeps it."""
    script = f"""(() => {{
      {OWNERS}
      const owner = made("a");
      const drop = keyboard.takeKeys(owner);
      press("x");
      const targets = ["<button></button>", "<summary></summary>", "<i role='tab'></i>", "<i></i>"];
      const taken = targets.map((markup) => {{
        document.body.insertAdjacentHTML("beforeend", markup);
        return press(" ", document.body.lastElementChild);
      }});
      const button = owner.root.appendChild(document.createElement("button"));
      const clicked = [0, 1].map((detail) => {{
        button.focus();
        button.dispatchEvent(new MouseEvent("click", {{ bubbles: true, detail }}));
        return press(" ", document.activeElement);
      }});
      drop();
      press("x");
      return [did.length, taken, clicked];
    }})()"""
    assert run(script) == [3, [False, False, False, True], [False, True]]


def test_enter_follows_a_link_during_a_talk(run):
    script = f"""(() => {{
      {OWNERS}
      const ends = new AbortController();
      keys.takeTalkKeys((action, name) => did.push(action ?? name), ends.signal);
      const link = document.createElement("a");
      document.body.append(link);
      const taken = [press("Enter", link), press(" ", link), press("Enter")];
      ends.abort();
      return [taken, did];
    }})()"""
    assert run(script) == [[False, True, True], ["next", "Enter"]]


def test_a_talk_that_is_left_gives_the_keys_back(run, data):
    """And not when a rerun cleans up just before the next call."""
    scene = {"title": "zero", "sentence": "", "stops": [{"step": "1", "sentence": ""}]}
    scene |= {"run": "r", "duel": "", "chart": None, "view": "grid", "row": None}
    talk = {"id": "t", "title": "T", "minutes": 1, "runs": {"r": data}, "duels": {}, "scenes": [scene]}
    script = f"""(async () => {{
      {OWNERS}
      const show = (await import("/talk_component.js")).default;
      const parentElement = document.createElement("div");
      parentElement.innerHTML = '<div class="fa-talk" tabindex="-1"></div>';
      document.body.append(parentElement);
      const later = () => new Promise((resolve) => setTimeout(resolve, 20));
      const call = () => show({{ data: {{ talk: given }}, parentElement }});
      call()();
      const leave = call();
      await later();
      const during = press("n");
      leave();
      await later();
      return [during, press("n")];
    }})()"""
    assert run(script, talk | {"palettes": palettes_for_player()}) == [True, False]


# --- the Streamlit component: one player per element, in any order of calls and clean-ups ---


CALLS = """(async () => {
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
      players: root.querySelectorAll(".fa-transport").length,
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
    one, other = (run_traced(WINDOW, name) for name in ("flash2", "flash1"))
    return [shown(one)[1], shown(other)[1], both(one, other)]


def tried(run, given, steps):
    return run(CALLS.replace("STEPS", f"async () => {{ {steps} }}"), given)


@pytest.mark.parametrize(
    ("steps", "step"),
    {
        "const late = call(first); call(second); late();": 1,
        "const late = call(first); late(); call(second);": 1,
        "const late = call(first); call(second); late(); call(second);": 1,
        "call(first); const last = call(second); last();": 0,  # after the last call no key is taken
    }.items(),
    ids=["after", "before", "again", "last"],
)
def test_a_call_that_is_cleaned_up_leaves_the_player_of_the_next(run, given, steps, step):
    shown = tried(run, given, f"{steps} return report();")
    assert (shown["players"], shown["lines"]) == (1, True)
    assert shown["step"] == f"step {step} / {given[1]['steps']['count']}"


@pytest.mark.parametrize("again", ["first", "second"])
def test_the_same_run_goes_on_playing_where_it_was_and_another_from_its_start(run, given, again):
    steps = """const early = call(first); ["ArrowRight", "ArrowRight", "[", " "].forEach(press); early();
      call(AGAIN);
      return { plays: root.querySelector('button[title^="play"]').ariaPressed === "true", ...report() };"""
    shown = tried(run, given, steps.replace("AGAIN", again))
    assert shown["plays"]
    assert shown["step"].startswith("step 3 /" if again == "first" else "step 1 /")


def test_a_duel_takes_the_place_of_a_player(run, given):
    shown = tried(run, given, "call(first); call(both); return report();")
    assert (shown["players"], shown["lines"]) == (1, False)


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_a_moment_is_the_same_picture_wherever_playback_comes_from(look_at, algorithm):
    """Scrubbing, stepping back, films and print all draw the same frame."""
    look = """(shown) => {
      shown.pane.stage.style = "width: 900px; height: 400px";
      const { timeline, pane } = shown;
      const drawn = (part, rate) => {
        timeline.position = timeline.positionOf(part * pane.model.count);
        shown.drawStill(rate);
        return pane.stage.toDataURL();
      };
      const places = [0.11, 0.52, 0.83];
      const rates = [0, 20];
      const all = () => rates.flatMap((rate) => places.map((part) => drawn(part, rate)));
      all(); // a canvas that is read for the first times may be painted by other means than later
      const forwards = all();
      const back = places.toReversed();
      const again = rates.flatMap((rate) => back.map((part) => drawn(part, rate)).toReversed());
      return [forwards.map((each, i) => each === again[i]), new Set(forwards).size];
    }"""
    problem = AttentionProblem(q_len=24, kv_len=24, head_dim=16, block_m=8, block_n=8, mask="causal")
    same, different = look_at(traced(problem, algorithm)[1], look)
    assert all(same)
    assert different > 4
