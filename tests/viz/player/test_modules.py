"""The player's modules by themselves, in a real browser: formats, model, timeline, transport, words."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from tests.viz.player.test_data import PROBLEM, decode, hand_built
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
    written = run("given.numbers.map((n) => formats.formatMs(n))", {"numbers": numbers})
    assert written == [formats.format_ms(number) for number in numbers]


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


WINDOW = AttentionProblem(
    q_heads=2, q_len=20, kv_len=40, head_dim=16, block_m=8, block_n=8, mask="window", window_left=3
)
"""Two heads; the first key tiles are seen by no query, and the last query tile has 4 rows."""


@pytest.fixture(scope="module")
def window():
    """(trace, player data) of a backward pass: three kernels, steps about a query or a key tile alone."""
    trace = run_traced(WINDOW, "backward")
    return trace, player_data(trace, "here", GPU)


@pytest.fixture(scope="module")
def parts():
    """(trace, player data) of a decoding step whose 7 key tiles are split into parts of 3, 3 and 1."""
    problem = AttentionProblem(
        q_len=1, kv_len=50, head_dim=16, q_heads=4, kv_heads=2, block_m=4, block_n=8, kv_splits=3
    )
    trace = run_traced(problem, "split_kv")
    return trace, player_data(trace, "here", GPU)


def test_a_turn_goes_from_its_first_step_to_its_last(run, window):
    _, data = window
    turn = decode(data["steps"]["turn"], "uint32").tolist()
    first, last = run("[model.makeModel(given)].map((m) => [[...m.turnFirst], [...m.turnLast]])[0]", data)
    assert first == [turn.index(number) for number in turn]
    assert last == [len(turn) - 1 - turn[::-1].index(number) for number in turn]


def test_steps_are_found_by_kernel_head_and_query_tile(run, window):
    trace, data = window
    wanted = [[kernel, head, q] for kernel in range(3) for head in range(2) for q in range(4)]
    script = (
        "[model.makeModel(given.data)].map((m) => given.wanted.map((at) => model.stepsOfTile(m, ...at)))[0]"
    )
    for (kernel, head, q), found in zip(wanted, run(script, {"data": data, "wanted": wanted}), strict=True):
        of_tile = (trace.kernel == kernel) & (trace.batch_head == head) & (trace.q_tile == q)
        assert found == np.flatnonzero(of_tile).tolist()
    assert run("model.makeModel(given).heads", data) == [0, 1]


def test_a_step_is_about_a_tile_of_the_grid_or_about_a_query_or_key_tile_alone(run, window):
    trace, data = window
    steps = "[...m.q].map((q, i) => [model.hasTile(m, i), model.tileKind(m, i)])"
    told = run(f"[model.makeModel(given)].map((m) => {steps})[0]", data)
    both = (trace.q_tile >= 0) & (trace.kv_tile >= 0)
    assert [has for has, _ in told] == both.tolist()
    kinds = decode(data["kinds"], "uint8").reshape(3, 5)
    assert [kind for _, kind in told] == np.where(both, kinds[trace.q_tile, trace.kv_tile], 0).tolist()
    assert {kind for _, kind in told} == {0, 1}
    assert not both.all()


def test_a_step_counts_its_phases_and_one_without_any_counts_as_one(run, window):
    """A key tile that no query sees has the phases around the loop; without them it is still a step."""
    _, data = window
    counts, starts = run(
        "[model.makeModel(given)].map((m) => [m.phases.map((p) => p.length), [...m.phaseStart]])[0]", data
    )
    assert np.diff(starts).tolist() == counts
    assert starts[0] == 0
    without = data | {"kernels": [kernel | {"phases": [[], [], []]} for kernel in data["kernels"]]}
    assert run("[...model.makeModel(given).phaseStart]", without) == list(range(len(counts) + 1))


@pytest.mark.parametrize("algorithm", ["backward", "backward_q_outer"])
def test_a_strip_knows_its_edges_and_the_steps_that_fill_it(run, algorithm):
    """dK is stored after the loop over queries, or at every step if the query tile is outside."""
    trace = run_traced(WINDOW, algorithm)
    strips = run(
        """[model.makeModel(given)].map((m) => m.strips.map((one) => [
             one.name, one.along, one.edges, one.inParts, one.store,
             one.store && [model.fillingSteps(m, one, 0), model.fillingSteps(m, one, 1)]]))[0]""",
        player_data(trace, "here", GPU),
    )
    entry = ALGORITHMS[algorithm]
    assert [name for name, *_ in strips] == [*entry.top, *entry.left, *entry.right]
    for name, along, edges, in_parts, store, filling in strips:
        tiles, column = (5, trace.kv_tile) if name in entry.top else (3, trace.q_tile)
        assert (along, edges) == ("kv" if name in entry.top else "q", list(range(tiles + 1)))
        assert not in_parts
        storing = [index for index, kernel in enumerate(entry.kernels) if (name, "write") in kernel.requests]
        if not storing:
            assert store is None
            continue
        inside = any(name in phase.stores for phase in entry.kernels[storing[0]].step)
        assert store == {"kernel": storing[0], "everyStep": inside}
        for head, of_head in enumerate(filling):
            for tile, steps in enumerate(of_head):
                fills = (trace.kernel == storing[0]) & (trace.batch_head == head) & (column == tile)
                assert steps == np.flatnonzero(fills).tolist()


def test_the_strip_of_the_parts_has_a_tile_for_each_part(run, parts):
    trace, data = parts
    script = """[model.makeModel(given)].map((m) => [
      m.keyParts,
      m.strips.map((one) => [one.name, one.inParts, one.edges]),
      model.fillingSteps(m, m.strips.find((one) => one.name === "partial O"), 1)])[0]"""
    key_parts, strips, filling = run(script, data)
    assert key_parts == [0, 3, 6, 7]
    edges = {name: (in_parts, where) for name, in_parts, where in strips}
    assert edges["partial O"] == (True, [0, 3, 6, 7])
    assert edges["K"] == edges["V"] == (False, list(range(8)))
    assert edges["O"] == (False, [0, 1])
    for tile, steps in enumerate(filling):
        fills = (trace.kernel == 0) & (trace.batch_head == 1) & (trace.kv_tile == tile)
        assert steps == np.flatnonzero(fills).tolist()
    whole = data | {"key_parts": [0, 7]}
    assert run("model.makeModel(given).keyParts", whole) == []


def test_a_step_about_several_key_tiles_fills_them_all(run, parts):
    """As a combining kernel would that wrote along the keys, in parts of 3, 3 and 1 tiles."""
    trace, data = parts
    strip = '{ along: "kv", store: { kernel: 1 }, filled: new Map() }'
    combining = np.flatnonzero((trace.kernel == 1) & (trace.q_tile >= 0))
    filling = run(
        f"[model.makeModel(given)].map((m) => model.fillingSteps(m, {strip}, m.head.at(-1)))[0]", data
    )
    first, second, third = combining[-3:].tolist()
    assert filling == [[first]] * 3 + [[second]] * 3 + [[third]]


def test_values_per_tile_and_shares_come_back_as_they_were_recorded(run, window):
    trace, data = window
    names = ("share", "dQ", "dK", "dV")
    rows = "m.offsets.map((_, row) => given.names.map((name) => model.valueAt(m, name, i, row)))"
    steps = f"[...m.q].map((_, i) => {rows})"
    values = np.array(
        run(
            f"[model.makeModel(given.data)].map((m) => {steps})[0]",
            {"data": data, "names": names},
        ),
        float,
    )
    shares = np.clip(np.nan_to_num(trace.row_share), 0, 1)
    np.testing.assert_allclose(values[:, :, 0], shares, atol=1e-5)
    distances = np.clip(np.nan_to_num(trace.gradient_distance, nan=1e-9), 1e-9, 1e3)
    for row in range(values.shape[1]):
        np.testing.assert_allclose(values[:, row, 1:], distances, rtol=3e-4)


def test_the_last_query_tile_has_the_rows_that_are_left(run, window):
    script = "[0, 1, 2].map((q) => model.rowCount(model.makeModel(given), q))"
    assert run(script, window[1]) == [8, 8, 4]


def test_a_phase_works_on_what_it_loads_and_makes_and_on_what_it_stores(run, data):
    script = """(() => {
      const [kernel] = model.makeModel(given).kernels;
      const worked = (phase) => kernel.sram.filter((part) => model.isWorkedOn(part, phase));
      return kernel.phases.flat().map((phase) => [phase.name, worked(phase).map((part) => part.name)]);
    })()"""
    assert dict(run(script, data)) == {
        "load Q": ["Q", "O", "m, l"],
        "load K": ["K"],
        "QK^T": ["S, P"],
        "mask": ["S, P"],
        "row max": ["m, l"],
        "exponentials": ["S, P"],
        "rescale": ["O", "m, l"],
        "load V": ["V"],
        "PV": ["O"],
        "store O, lse": ["O", "m, l"],
    }


# --- timeline ---

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


def test_the_counter_tells_steps_microseconds_or_moments(run, data):
    script = """(() => {
      const count = (data, place) => {
        const t = new timeline.Timeline(model.makeModel(data));
        t.goToText(place);
        return words.countWords(t, t.cursor());
      };
      const places = ["0", "3", "3.2", "gpu:0", "gpu:3", "gpu:5"];
      return given.map((data) => places.map((place) => count(data, place)));
    })()"""
    thousandfold = hand_built(PROBLEM, clock=True)
    thousandfold = replace(
        thousandfold, start_ns=thousandfold.start_ns * 10, end_ns=thousandfold.end_ns * 10 + 60
    )
    measured, modelled = run(
        script, [player_data(one, "", GPU) for one in (thousandfold, hand_built(PROBLEM))]
    )
    steps = ["step 0 / 10", "step 3 / 10", "step 4 / 10"]
    assert measured == [*steps, "0.0 / 3.6 µs", "2.0 / 3.6 µs", "3.6 / 3.6 µs"]
    assert modelled == [*steps, "moment 0 / 5", "moment 3 / 5", "moment 5 / 5"]


def test_speed_and_curves_are_told_in_their_units(run, data):
    script = f"""(() => {{
      {TIMELINE};
      const speeds = [words.rateWords(t, 4)];
      t.order = "gpu";
      const curves = [{{ name: "m", title: "row max" }}, {{ name: "d", title: "distance", log: true }}];
      return [...speeds, words.rateWords(t, 0.5), words.curveWords(curves)];
    }})()"""
    assert run(script, data) == ["4 tiles/s", "0.5 moments/s", "m: row max\nd: distance, log scale"]


@pytest.mark.parametrize(
    ("place", "steps", "of_key"), [("0", 0, 0), ("2", 2, 0), ("2.3", 2, 10), ("gpu:0", 0, 0), ("gpu:2", 4, 0)]
)
def test_bytes_so_far_are_those_of_what_is_done(run, data, place, steps, of_key):
    """In its third phase a step has loaded its keys. At moment 2 each query tile has done its first step."""
    trace = hand_built(PROBLEM, clock=True)
    done = np.arange(10) < steps if "gpu" not in place else (trace.end_ns <= 100) & (steps > 0)
    moved = (trace.tensor_bytes_read + trace.tensor_bytes_written)[done].sum(axis=0)
    moved[1] += of_key
    script = f"""(() => {{
      {TIMELINE.replace("given", "given.data")};
      t.goToText(given.place);
      const at = t.cursor();
      return words.bytesSoFar(t, {{ ...at, isDone: (step) => t.isDone(at, step) }});
    }})()"""
    told = run(script, {"data": data, "place": place})
    assert done.sum() == steps
    assert told == {"total": moved.sum(), "perTensor": moved.tolist()}


def readout(run, data, step, phase="null", pinned="null"):
    """What is said of a step, when it is done or in a phase of that index."""
    script = f"""(() => {{
      {TIMELINE};
      const [step, phase] = [{step}, {phase}];
      const at = {{ step, complete: phase === null, phase: t.model.phases[step][phase ?? 0] }};
      at.kernel = t.model.kernel[step];
      at.isDone = (i) => i < step || (i === step && at.complete);
      return words.readoutWords(t, at, {{ total: 1500 }}, 1, {pinned});
    }})()"""
    return run(script, data)


def test_a_step_is_told_by_its_kernel_and_its_tiles(run, window):
    trace, data = window

    def of(**where):
        matches = np.logical_and.reduce([getattr(trace, name) == value for name, value in where.items()])
        return int(np.flatnonzero(matches)[0])

    first = of(kernel=0, q_tile=1)
    assert readout(run, data, first) == "_attn_bwd_preprocess: query tile 1. 1.5 kB so far."
    assert readout(run, data, first, 0).startswith("_attn_bwd_preprocess: query tile 1: load O, dO. ")
    alone = of(kernel=1, q_tile=-1)
    assert readout(run, data, alone).startswith("_attn_bwd_dk_dv: key tile 0 is seen by no query. ")
    cut = of(kernel=2, q_tile=2, kv_tile=4)
    said = "_attn_bwd_dq: query tile 2, key tile 4 (partly masked). Row 16: P "
    assert readout(run, data, cut).startswith(said)


def test_a_query_tile_without_a_key_is_told(run):
    problem = AttentionProblem(q_len=48, kv_len=16, head_dim=16, block_m=16, block_n=16, mask="causal")
    data = player_data(hand_built(problem), "", GPU)
    assert readout(run, data, 0).startswith("Query tile 0 sees no key. ")


def test_a_step_of_split_keys_is_told_by_its_part(run, parts):
    trace, data = parts
    steps = [int(np.flatnonzero((trace.kernel == 0) & (trace.kv_tile == tile))[0]) for tile in (2, 3, 6)]
    said = [readout(run, data, step).split(". ")[0] for step in steps]
    assert said == [
        "_attn_split_kv: part 0, key tile 2",
        "_attn_split_kv: part 1, key tile 3",
        "_attn_split_kv: part 2, key tile 6",
    ]
    combining = np.flatnonzero(trace.kernel == 1)[:3].tolist()
    assert [readout(run, data, step).split(". ")[0] for step in combining] == [
        "_attn_combine: part 0, key tiles 0 to 2",
        "_attn_combine: part 1, key tiles 3 to 5",
        "_attn_combine: part 2, key tile 6",
    ]


def test_the_state_of_a_step_is_that_of_the_picked_row(run):
    trace = hand_built(PROBLEM)
    numbered = replace(trace, row_max=np.tile(np.arange(16, dtype=np.float32), (10, 1)))
    data = player_data(numbered, "", GPU)
    assert "Row 16: m 0, l 16" in readout(run, data, 1)
    assert "Row 23: m 7, l 16" in readout(run, data, 1, pinned="{ head: 0, q: 1, row: 7 }")
    assert "Row 23: m 7, l 32" in readout(run, data, 2, pinned="{ head: 0, q: 1, row: 7 }")


def test_modelled_moments_name_the_gpu(run):
    data = player_data(hand_built(PROBLEM), "", GPU)
    script = f"(() => {{ {WORDS.replace('given', 'given.data')} return read(given.place) }})()"
    basis = f"modelled: one program per SM of the {GPU.name}, every step takes the same time"
    said = run(script, {"data": data, "place": "gpu:2"})
    assert said == f"3 tiles in progress, {basis}. 147 B requested so far."


def test_a_tile_is_told_by_what_the_mask_leaves_of_it_and_its_share(run, window):
    """The share is that of the head and the kernel at hand."""
    trace, data = window
    share = decode(data["steps"]["share"], "uint16")
    told = "given.hits.map(([hit, kernel]) => words.tileWords(m, hit, kernel))"
    script = f"[model.makeModel(given.data)].map((m) => {told})[0]"
    places = [(head, 2, kv, kernel) for head in range(2) for kv in range(5) for kernel in (1, 2)]
    hits = [[{"head": head, "q": q, "kv": kv}, kernel] for head, q, kv, kernel in places]
    for (head, q, kv, kernel), said in zip(places, run(script, {"data": data, "hits": hits}), strict=True):
        at = (
            (trace.kernel == kernel)
            & (trace.batch_head == head)
            & (trace.q_tile == q)
            & (trace.kv_tile == kv)
        )
        kind, part = "skipped by the mask", ""
        if at.any():
            percent = formats.format_number(100 * float(share[at.argmax()]) / 65535)
            kind, part = "partly masked", f", {percent} % of the attention of its rows"
        assert said == f"query tile {q}, key tile {kv}: {kind}{part}. Click to follow this row."


def test_a_tile_that_a_kernel_only_computes_has_no_share(run):
    problem = AttentionProblem(q_len=16, kv_len=16, head_dim=16, block_m=8, block_n=8)
    data = player_data(run_traced(problem, "standard"), "here", GPU)
    script = "[0, 2].map((k) => words.tileWords(model.makeModel(given), { head: 0, q: 1, kv: 0 }, k))"
    computed, weighed = run(script, data)
    assert computed == "query tile 1, key tile 0: full. Click to follow this row."
    assert "full, " in weighed
    assert weighed.endswith(" % of the attention of its rows. Click to follow this row.")


def test_the_very_first_tile_has_a_share(run, data):
    script = "words.tileWords(model.makeModel(given), { head: 0, q: 0, kv: 0 }, 0)"
    share = "100 % of the attention of its rows"
    assert run(script, data) == f"query tile 0, key tile 0: partly masked, {share}. Click to follow this row."


def test_two_runs_are_told_by_their_steps_bytes_and_in_a_race_their_times(run, data):
    script = """(() => {
      const panes = [model.makeModel(given), model.makeModel(given)].map((m) => ({ model: m }));
      const costs = [[5e5, 1e6, 2e6], [5e5, 1e6, 3e6]];
      return [true, false].map((race) => words.duelWords(panes, [10, 3], costs, race, "Modelled."));
    })()"""
    states = "A: 10 of 10 steps{}, 348 B. B: 3 of 10 steps, {} B."
    third = run("model.makeModel(given).bytes[3]", data)
    race, steps = run(script, data)
    assert race == states.format(" in 2 ms", int(third)) + " Modelled."
    assert steps == states.format("", int(third))


def test_a_row_is_told_by_its_number_and_a_head_by_its_kind(run, data, parts):
    rows = "[null, { head: 0, q: 2, row: 5 }].map((pin) => words.rowWords(m, { step: 1, kernel: 0 }, pin))"
    assert run(f"[model.makeModel(given)].map((m) => {rows})[0]", data) == [
        "row 16 (click a tile to pick one)",
        "row 37 (picked; click it again to let go)",
    ]
    name = "words.headName(model.makeModel(given), 1)"
    assert [run(name, data), run(name, parts[1])] == ["head 1", "K head 1"]


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
