"""The player's model: what a trace becomes in the browser."""

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.anywhere import ANYWHERE
from tests.viz.player.runs import GPU, WINDOW
from tests.viz.player.test_data import PROBLEM, decode, hand_built
from viz.player.data import player_data

pytestmark = pytest.mark.browser


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
      const live = (phase) => kernel.parts.filter((part) => model.isLive(kernel, part, phase));
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


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_every_entry_can_be_drawn(run, algorithm):
    """Its series are known, each phase works on some part, and each part is live when a phase works on it."""
    problem = AttentionProblem(q_len=24, kv_len=24, head_dim=16, block_m=8, block_n=8, mask="causal")
    data = player_data(run_traced(problem, algorithm), "here", GPU)
    script = """model.makeModel(given).kernels.map((kernel) => [
      kernel.series.filter((name) => !series.SERIES[name]),
      kernel.phases.flat().flatMap((phase) => {
        const parts = kernel.parts.filter((part) => model.isWorkedOn(part, phase));
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


def test_a_tile_that_was_set_to_zero_is_not_filled(run):
    """The sweep adds each step's part to dQ, which another kernel has set to zero, and a third one scales."""
    problem = ALGORITHMS["flash3_backward"].with_own_tiles(PRESETS["gpt2"].problem)
    trace = recorded_run(problem, "flash3_backward").trace
    script = """(() => {
      const m = model.makeModel(given);
      const strip = m.strips.find((one) => one.name === "dQ");
      const level = (done) => {
        const at = { step: -1, phase: null, head: 0, kernel: 0, finished: false, isDone: (i) => i < done };
        return strips.stripState(m, strip, at, 2, 3).level;
      };
      const steps = [0, 1, 2].map((kernel) => model.stepsOfTile(m, kernel, 0, 2).at(-1));
      return steps.map((step) => level(step + 1));
    })()"""
    zeroed, added, scaled = run(script, player_data(trace, "here", GPU))
    assert zeroed == pytest.approx(0.12)
    assert zeroed < added < scaled == pytest.approx(1)


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


@pytest.mark.parametrize("algorithm", ["backward", "backward_q_outer", "backward_kv_outer"])
def test_a_strip_knows_its_edges_and_the_steps_that_fill_it(run, algorithm):
    """dK is stored after the loop over queries, or at every step if the query tile is outside."""
    trace = run_traced(WINDOW, algorithm)
    strips = run(
        """[model.makeModel(given)].map((m) => m.strips.map((one) => [
             one.name, one.along, one.edges, one.inParts, one.fillers,
             one.isFilled && [model.fillingSteps(m, one, 0), model.fillingSteps(m, one, 1)]]))[0]""",
        player_data(trace, "here", GPU),
    )
    entry = ALGORITHMS[algorithm]
    assert [name for name, *_ in strips] == [*entry.top, *entry.left, *entry.right]
    for name, along, edges, in_parts, fillers, filling in strips:
        tiles, column = (5, trace.kv_tile) if name in entry.top else (3, trace.q_tile)
        assert (along, edges) == ("kv" if name in entry.top else "q", list(range(tiles + 1)))
        assert not in_parts
        storing = [index for index, kernel in enumerate(entry.kernels) if (name, "write") in kernel.requests]
        if not storing:
            assert filling is False
            continue
        inside = any(name in phase.stores for phase in entry.kernels[storing[0]].step)
        kernels = range(len(entry.kernels))
        assert fillers == [{"everyStep": inside} if index in storing else None for index in kernels]
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
    strip = '{ along: "kv", fillers: [null, { everyStep: false }], filled: new Map() }'
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
    distances = np.nan_to_num(trace.gradient_distance)
    distances[distances <= 1e-9] = 0
    for row in range(values.shape[1]):
        np.testing.assert_allclose(values[:, row, 1:], distances, rtol=3e-4, atol=2e-9)


def test_the_last_query_tile_has_the_rows_that_are_left(run, window):
    script = "[0, 1, 2].map((q) => model.rowCount(model.makeModel(given), q))"
    assert run(script, window[1]) == [8, 8, 4]


def test_a_phase_works_on_what_it_loads_and_makes_and_on_what_it_stores(run, data):
    script = """(() => {
      const [kernel] = model.makeModel(given).kernels;
      const worked = (phase) => kernel.parts.filter((part) => model.isWorkedOn(part, phase));
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


def test_a_tile_of_a_strip_is_bright_once_its_phase_has_loaded_it(run, data):
    """V comes after the exponentials: its tile is not bright before, as the chip does not hold it."""
    script = """(() => {
      const m = model.makeModel(given);
      const level = (name) => m.phases[1].map((phase) => {
        const strip = m.strips.find((one) => one.name === name);
        const from = strip.along === "q" ? m.q[1] : m.kv[1];
        const at = { step: 1, phase, kernel: 0, complete: false, isDone: (step) => step < 1 };
        return [phase.name, strips.stripState(m, strip, at, from, from + 1).level];
      });
      return ["Q", "K", "V"].map(level);
    })()"""
    q, k, v = (dict(levels) for levels in run(script, data))
    assert set(q.values()) == {1}
    assert (k["load Q"], k["load K"], k["PV"]) == (0.45, 1, 1)
    assert (v["load K"], v["rescale"], v["load V"], v["PV"]) == (0.45, 0.45, 1, 1)
