"""What the player says, and when it knows it."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem
from tests.anywhere import ANYWHERE
from tests.viz.player.runs import GPU
from tests.viz.player.test_data import PROBLEM, decode, hand_built
from viz.player.data import player_data
from viz.shared import formats

pytestmark = pytest.mark.browser


TIMELINE = "const t = new timeline.Timeline(model.makeModel(given))"


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
        (
            "2.3",
            "Query tile 1, key tile 1 (partly masked): mask. "
            "Row 16: m 0{of}, l 16{of}, α 0{of}. 87 B so far.",
        ),
        (
            "2.4",
            "Query tile 1, key tile 1 (partly masked): row max. Row 16: m 0, l 16{of}, α 0{of}. 87 B so far.",
        ),
        ("2.6", "Query tile 1, key tile 1 (partly masked): rescale. Row 16: m 0, l 32, α 1. 87 B so far."),
        ("gpu:2", "3 tiles in progress, by the GPU's clock (traced launch). 147 B requested so far."),
        ("gpu:99", "All programs have ended. 348 B requested."),
    ],
)
def test_the_readout_says_where_the_playback_stands(run, data, place, said):
    script = f"(() => {{ {WORDS.replace('given', 'given.data')} return read(given.place) }})()"
    assert run(script, {"data": data, "place": place}) == said.replace("{of}", " after tile 0")


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


def test_the_counter_counts_phases_too_if_a_press_is_one(run, data):
    script = f"""(() => {{
      {TIMELINE};
      t.unit = "phase";
      const at = (place) => (t.goToText(place), words.countWords(t, t.cursor()));
      return ["0", "3.2", "4"].map(at);
    }})()"""
    assert run(script, data) == ["step 0 / 10", "step 4 / 10, phase 2 / 8", "step 4 / 10, phase 8 / 8"]


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
    told = "given.hits.map(([hit, kernel]) => words.tileWords(m, hit, kernel, true))"
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
    script = "[0, 2].map((k) => words.tileWords(model.makeModel(given), { head: 0, q: 1, kv: 0 }, k, true))"
    computed, weighed = run(script, data)
    assert computed == "query tile 1, key tile 0: full. Click to follow this row."
    assert "full, " in weighed
    assert weighed.endswith(" % of the attention of its rows. Click to follow this row.")


def test_the_very_first_tile_has_a_share(run, data):
    script = "words.tileWords(model.makeModel(given), { head: 0, q: 0, kv: 0 }, 0, true)"
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
        "row 16",
        "row 37",
    ]
    name = "words.headName(model.makeModel(given), 1)"
    assert [run(name, data), run(name, parts[1])] == ["head 1", "K head 1"]


def test_a_picked_row_without_a_tile_so_far_is_told_as_such(run, data):
    """Its curves are empty, and a click on it seemed to do nothing."""
    script = """(() => {
      const m = model.makeModel(given);
      const at = { step: 1, kernel: 0, isDone: (step) => step < 1 };
      const hints = [null, 0, 2].map((q) => words.rowHint(m, at, q === null ? null : { head: 0, q, row: 3 }));
      return [...hints, words.rowHint(m, at, null, true)];
    })()"""
    none, begun, to_come, opened = run(script, data)
    assert none == " (click the grid to follow another)"
    assert begun == " (picked; click it again to let go)"
    assert to_come == " (picked, not reached yet; click it again to let go)"
    assert opened == " (↑ and ↓ pick another)"


def test_the_readout_is_about_the_picked_row(run, data):
    script = f"(() => {{ {WORDS.replace(', null);', ', given.pinned);').replace('given', 'given.data', 1)}"
    script += " return read(given.place) })()"
    given = {"data": data, "place": "3", "pinned": {"head": 0, "q": 0, "row": 3}}
    assert "Row 3: m 0, l 16, α 0." in run(script, given)
    given["pinned"] = {"head": 0, "q": 2, "row": 3}
    assert "Row" not in run(script, given)  # no step of query tile 2 has been played


@pytest.mark.parametrize("algorithm", ANYWHERE)
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
    assert run(script, data) == "row 3: head 3, query 1"


def test_a_step_about_several_key_tiles_is_that_of_each_and_its_share_is_theirs(run, parts):
    script = """[model.makeModel(given)].map((m) => [
      words.tileWords(m, { head: 0, q: 0, kv: 1 }, 1),
      [2, 3, 5, -1].map((kv) => model.stepsAbout(m, 1, { head: 0, q: 0, kv }).length),
    ])[0]"""
    said, steps = run(script, parts[1])
    assert "key tiles 0 to 2 together: " in said
    assert steps == [1, 1, 1, 3]
