"""The player's modules by themselves, in a real browser: formats, model, timeline, transport, words."""

import math
import random

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from tests.viz.player.test_data import PROBLEM, hand_built
from viz.player.data import duel_data, player_data
from viz.player.modules import FOLDER, one_script
from viz.shared import formats

pytestmark = pytest.mark.browser

ORIGIN = "http://player.test"
FILES = sorted(path.stem for path in FOLDER.glob("*.js") if path.stem not in ("component", "page"))
GPU = GPUS["H200"]


@pytest.fixture(scope="module")
def run(browser):
    """A function that runs a line of JavaScript with the modules by their names, and `given`."""
    page = browser.new_page()

    def serve(route):
        name = route.request.url.removeprefix(f"{ORIGIN}/")
        if name.endswith(".js"):
            route.fulfill(body=(FOLDER / name).read_text(), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html>", content_type="text/html")

    page.route(f"{ORIGIN}/**", serve)
    page.goto(f"{ORIGIN}/")
    imports = ", ".join(f"import('/{name}.js')" for name in FILES)
    page.evaluate(
        f"async () => [{', '.join(f'window.{name}' for name in FILES)}] = await Promise.all([{imports}])"
    )
    yield lambda script, given=None: page.evaluate(f"(given) => {script}", given)
    page.close()


@pytest.fixture(scope="module")
def data():
    return player_data(hand_built(PROBLEM, clock=True), "made up", GPU)


def test_numbers_are_written_as_python_writes_them(run):
    generator = random.Random(0)
    numbers = [0.0, 1.0, 0.999, 0.9996, 999.4, 999.6, 1e6, 123456.7, 1e-3, 9.99e-4, 5e9, 1e15]
    numbers += [generator.uniform(1, 10) * 10.0 ** generator.randint(-9, 15) for _ in range(500)]
    signed = [*numbers, *(-number for number in numbers)]
    given = {"numbers": numbers, "signed": signed}
    written = run("given.signed.map((n) => [formats.formatNumber(n), formats.formatNumber(n, 2)])", given)
    assert written == [[formats.format_number(n), formats.format_number(n, 2)] for n in signed]
    given = {"numbers": [number for number in numbers if number >= 1 or number == 0]}
    for name, python in (
        ("formatBytes", formats.format_bytes),
        ("formatKib", formats.format_kib),
        ("formatMs", formats.format_ms),
    ):
        written = run(f"given.numbers.map((n) => formats.{name}(n))", given)
        assert written == [python(number) for number in given["numbers"]], name


def test_what_is_not_a_number_is_written_as_python_writes_it(run):
    words = run("[NaN, Infinity, -Infinity].map((n) => formats.formatNumber(n))")
    assert words == [formats.format_number(n) for n in (math.nan, math.inf, -math.inf)]


def test_bytes_before_each_step_are_those_of_the_trace(run, data):
    trace = hand_built(PROBLEM, clock=True)
    moved = (trace.tensor_bytes_read + trace.tensor_bytes_written).cumsum(axis=0)
    totals, tensors = run(
        "[model.makeModel(given)].map((m) => [[...m.bytes], m.tensorBytes.map((t) => [...t])])[0]", data
    )
    assert totals == [0, *moved.sum(axis=1).tolist()]
    assert [sums[1:] for sums in tensors] == moved.T.tolist()


def test_values_come_back_as_they_were_recorded(run, data):
    read = "['m', 'l', 'alpha', 'distance'].map((name) => model.valueAt(m, name, 2, 5))"
    values = run(f"{{ const m = model.makeModel(given); return {read} }}", data)
    assert values[:3] == [0, 32, 1]
    assert values[3] == pytest.approx(0.01, rel=1e-3)
    assert run("model.valueAt(model.makeModel(given), 'weight', 0, 0)", data) is None


def test_phases_of_a_step_depend_on_its_place_in_the_turn_and_on_the_mask(run, data):
    names = run("model.makeModel(given).phases.map((phases) => phases.map((phase) => phase.name))", data)
    loop = [phase.name for phase in ALGORITHMS["flash2"].kernels[0].step]
    unmasked = [name for name in loop if name != "mask"]
    assert names[0] == ["load Q", *loop, "store O, lse"]  # one tile, cut by the mask
    assert names[1] == ["load Q", *unmasked]
    assert names[2] == [*loop, "store O, lse"]


def test_a_query_tile_without_a_key_has_only_the_phases_around_the_loop(run):
    problem = AttentionProblem(q_len=48, kv_len=16, head_dim=16, block_m=16, block_n=16, mask="causal")
    names = run(
        "model.makeModel(given).phases[0].map((p) => p.name)", player_data(hand_built(problem), "", GPU)
    )
    assert names == ["load Q", "store O, lse"]


def test_a_step_about_several_key_tiles_shares_its_attention_out_among_them(run):
    """The tiles of a part of the keys are drawn with their share of it, and the largest sets the colours."""
    problem = AttentionProblem(q_len=1, kv_len=64, head_dim=16, block_m=4, block_n=16, kv_splits=2)
    data = player_data(run_traced(problem, "split_kv"), "here", GPU)
    steps = "[...m.kv].map((kv, i) => [m.share[i] / 65535, m.kvEnd[i] - kv, m.tileShare[i]])"
    shares, scale = run(f"[model.makeModel(given)].map((m) => [{steps}, m.scaleShare])[0]", data)
    assert [tiles for _, tiles, _ in shares] == [1, 1, 1, 1, 2, 2]
    for share, tiles, drawn in shares:
        assert drawn == pytest.approx(share / tiles)
    assert scale == pytest.approx(max(drawn for _, _, drawn in shares))


def test_parts_of_the_chip_hold_data_from_their_first_phase_to_their_last(run, data):
    """Of a tile step: which parts are live in which phase."""
    script = """(() => {
      const [kernel] = model.makeModel(given).kernels;
      const live = (phase) => kernel.sram.filter((part) => model.isLive(kernel, part, phase));
      return kernel.phases.flat().map((phase) => [phase.name, live(phase).map((part) => part.name)]);
    })()"""
    live = dict(run(script, data))
    always = {"Q", "O", "m, l"}
    assert {name: set(parts) - always for name, parts in live.items()} == {
        "load Q": set(),
        "load K": {"K"},
        "QK^T": {"K", "S, P"},
        "mask": {"S, P"},
        "row max": {"S, P"},
        "exponentials": {"S, P"},
        "rescale": {"S, P"},
        "load V": {"S, P", "V"},
        "PV": {"S, P", "V"},
        "store O, lse": set(),
    }
    assert all(always <= set(parts) for parts in live.values())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_entry_can_be_drawn(run, algorithm):
    """Its series are known, each phase works on some part, and each part is live when a phase works on it."""
    problem = AttentionProblem(q_len=24, kv_len=24, head_dim=16, block_m=8, block_n=8, mask="causal")
    data = player_data(run_traced(problem, algorithm), "here", GPU)
    script = """model.makeModel(given).kernels.map((kernel) => [
      kernel.series.filter((name) => !series.SERIES[name]),
      kernel.phases.flat().flatMap((phase) => {
        const parts = kernel.sram.filter((part) => model.isWorkedOn(part, phase));
        const dead = parts.filter((part) => !model.isLive(kernel, part, phase));
        return parts.length && !dead.length ? [] : [phase.name];
      }),
    ])"""
    assert run(script, data) == [[[], []]] * len(data["kernels"])


def test_a_written_strip_fills_with_the_steps_that_store_into_it(run, data):
    script = """(() => {
      const m = model.makeModel(given);
      const strip = m.strips.find((one) => one.name === "O");
      const level = (done) => {
        const at = { step: -1, phase: null, head: 0, kernel: 0, finished: false, isDone: (i) => i < done };
        return strips.stripState(m, strip, at, 1, 2).level;
      };
      return [level(0), level(1), level(2), level(3)];
    })()"""
    empty, before, half, full = run(script, data)
    assert empty == before == pytest.approx(0.12)  # query tile 1 has steps 1 and 2
    assert before < half < full == pytest.approx(1)


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


WORDS = f"""
  {TIMELINE};
  const read = (place) => {{
    t.goToText(place);
    const at = t.cursor();
    at.kernel = t.model.kernel[Math.max(at.step, 0)];
    at.isDone = (step) => t.isDone(at, step);
    return words.readoutWords(t, at, words.bytesSoFar(t, at), 3, null);
  }};
"""


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("0", "Not started. Space plays, the arrow keys step."),
        ("1", "Query tile 0, key tile 0 (partly masked). Row 0: m 0, l 16, α 0. 42 B so far."),
        ("1.2", "Query tile 1, key tile 0: load K. 57 B so far."),
        ("2.3", "Query tile 1, key tile 1 (partly masked): mask. Row 16: m 0, l 16, α 0. 87 B so far."),
        ("2.4", "Query tile 1, key tile 1 (partly masked): row max. Row 16: m 0, l 16, α 0. 87 B so far."),
        ("2.6", "Query tile 1, key tile 1 (partly masked): rescale. Row 16: m 0, l 32, α 1. 87 B so far."),
        ("gpu:2", "3 tiles in progress, by the GPU's clock (traced launch). 147 B requested so far."),
        ("gpu:99", "All programs have ended. 348 B requested."),
    ],
)
def test_the_readout_says_where_the_playback_stands(run, data, place, said):
    script = f"(() => {{ {WORDS.replace('given', 'given.data')} return read(given.place) }})()"
    assert run(script, {"data": data, "place": place}) == said


def test_the_readout_is_about_the_picked_row(run, data):
    script = f"(() => {{ {WORDS.replace(', null);', ', given.pinned);').replace('given', 'given.data', 1)}"
    script += " return read(given.place) })()"
    given = {"data": data, "place": "3", "pinned": {"head": 0, "q": 0, "row": 3}}
    assert "Row 3: m 0, l 16, α 0." in run(script, given)
    given["pinned"] = {"head": 0, "q": 2, "row": 3}
    assert "Row" not in run(script, given)  # no step of query tile 2 has been played


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_bytes_and_values_come_in_their_phases(run, algorithm):
    """In every phase of a run: bytes grow if it loads or stores, and a value is there from its phase on."""
    problem = AttentionProblem(
        q_len=24, kv_len=24, head_dim=16, block_m=8, block_n=8, mask="causal", kv_splits=2
    )
    data = player_data(run_traced(problem, algorithm), "here", GPU)
    script = f"""(() => {{
      {TIMELINE};
      const m = t.model;
      const wrong = [];
      let before = 0;
      for (let position = 1; position <= t.last(); position++) {{
        t.position = position;
        const at = t.cursor();
        at.isDone = (step) => t.isDone(at, step);
        const {{ total }} = words.bytesSoFar(t, at);
        const moves = at.phase.loads.length + at.phase.stores.length > 0;
        if (moves !== total > before) wrong.push([t.text(), at.phase.name, before, total]);
        before = total;
        for (const one of series.recordedSeries(m, m.kernel[at.step])) {{
          const phases = m.phases[at.step];
          const later = phases.slice(phases.indexOf(at.phase) + 1);
          const pending = !at.complete && later.some((phase) => one.changes(phase));
          const known = series.lastKnown(m, one, at, [at.step]) === 0;
          if (known === pending) wrong.push([t.text(), one.name, known]);
        }}
      }}
      return [wrong, before === m.bytes.at(-1)];
    }})()"""
    assert run(script, data) == [[], True]


def test_a_picked_row_in_words_leads_back_to_it(run, data):
    script = """(() => {
      const one = Object.assign(Object.create(pane.Pane.prototype), { model: model.makeModel(given) });
      const back = (words) => {
        one.pinText(words);
        return one.pinned && one.pinnedText();
      };
      return ["0.0", "0.37", "0.63", "0.64", "1.0", "0", "x", undefined].map(back);
    })()"""
    assert run(script, data) == ["0.0", "0.37", "0.63", None, None, None, None, None]


def test_a_row_of_packed_heads_is_told_by_its_head_and_query(run):
    problem = AttentionProblem(q_len=2, kv_len=16, head_dim=16, q_heads=4, kv_heads=2, block_m=4, block_n=16)
    data = player_data(run_traced(problem, "split_kv"), "here", GPU)
    at = "{ step: -1, started: true, kernel: 0 }"
    script = f"words.rowWords(model.makeModel(given), {at}, {{ head: 1, q: 0, row: 3 }})"
    assert run(script, data) == "row 3: head 3, query 1 (picked; click it again to let go)"


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


def test_the_script_holds_every_module_once(run):
    script = one_script("component.js")
    for name in FILES:
        assert script.count(f"const {name}_js = (() => {{") == 1, name


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.js": 'import { b } from "./b.js";\n', "b.js": "export const c = 1;\n"}, r"a.js imports \['b'\]"),
        ({"a.js": 'import * as b from "./b.js";\n'}, "is not accepted"),
        (
            {"a.js": 'import { a } from "./b.js";\n', "b.js": 'import { b } from "./a.js";\n'},
            "circle of imports",
        ),
        ({"a.js": "export { b };\n"}, "is not accepted"),
    ],
)
def test_what_one_script_cannot_hold_is_refused(files, message, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("viz.player.modules.FOLDER", tmp_path)
    with pytest.raises(ValueError, match=message):
        one_script.__wrapped__("a.js")
