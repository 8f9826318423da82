"""A tile in its numbers: what stands where in each phase, for which row it is told, and in which words."""

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from tests.viz.player.runs import GPU
from viz.player.data import duel_data, player_data

pytestmark = pytest.mark.browser

PROBLEM = AttentionProblem(q_len=10, kv_len=14, head_dim=16, block_m=4, block_n=4, mask="causal")
FULL = PROBLEM.with_(q_len=8, kv_len=12, mask="full")


@pytest.fixture(scope="module")
def traced():
    """(trace, player data) of some algorithms."""
    traces = {name: run_traced(PROBLEM, name) for name in ("flash2", "flash1", "backward")}
    return {name: (trace, player_data(trace, "here", GPU)) for name, trace in traces.items()}


STANDS = """
  const m = model.makeModel(given.data);
  const at = (step, name) => {
    const phase = m.phases[step].find((each) => each.name === name);
    return { step, phase, kernel: m.kernel[step], complete: false };
  };
  const stands = (step, name) => {
    const figures = figure.figureOf(m, step);
    return Object.fromEntries(figures.slots.map((slot) => {
      const shown = figure.standsIn(m, figures, slot, at(step, name));
      const row = shown && figure.rowOf(shown, 1);
      return [slot.name, shown && [shown.name, shown.rows, shown.columns, shown.fresh, row]];
    }));
  };
"""


def stands(run, data, step, phase):
    script = f"(() => {{ {STANDS} return stands(given.step, given.phase) }})()"
    return run(script, {"data": data, "step": step, "phase": phase})


def test_each_phase_fills_its_slot_with_what_the_kernel_recorded(run, traced):
    trace, data = traced["flash2"]
    step = int(np.flatnonzero((trace.q_tile == 1) & (trace.kv_tile == 2))[0])  # the mask cuts it
    names = {
        phase: stands(run, data, step, phase) for phase in ("load K", "QK^T", "mask", "exponentials", "PV")
    }
    assert {phase: shown["S"] and shown["S"][0] for phase, shown in names.items()} == {
        "load K": None,
        "QK^T": "QK^T",
        "mask": "S",
        "exponentials": "P",
        "PV": "P",
    }
    assert names["load K"]["K"][3] is True
    assert names["mask"]["K"][3] is False
    assert names["QK^T"]["Q"][0] == "Q"  # loaded before the loop
    assert names["load K"]["V"] is None
    scores = names["QK^T"]["S"][4]
    assert scores == pytest.approx((trace.matrices["QK^T"][step, 1] * PROBLEM.scale).tolist())
    assert names["PV"]["O"][4] == pytest.approx(trace.acc[step, 1].tolist())
    assert names["load K"]["O"][4] == pytest.approx(trace.acc[step - 1, 1].tolist())  # of the step before


def test_rows_and_keys_past_the_end_are_not_shown(run, traced):
    trace, data = traced["flash2"]
    step = int(np.flatnonzero((trace.q_tile == 2) & (trace.kv_tile == 3))[0])
    shown = stands(run, data, step, "PV")
    assert shown["S"][1:3] == [2, 2]
    assert shown["K"][1:3] == [2, 16]
    assert shown["O"][1:3] == [2, 16]


def test_a_sum_starts_empty_and_travels_through_hbm_in_flash_attention_1(run, traced):
    trace, data = traced["flash1"]
    first = int(np.flatnonzero((trace.q_tile == 1) & (trace.kv_tile == 0))[0])
    later = int(np.flatnonzero((trace.q_tile == 1) & (trace.kv_tile == 1))[0])
    assert stands(run, data, first, "load Q, O, m, l")["O"][4] == [0] * 16
    assert stands(run, data, later, "load Q, O, m, l")["O"][4] == pytest.approx(trace.acc[first, 1].tolist())


def test_backward_fills_both_products(run, traced):
    trace, data = traced["backward"]
    step = int(np.flatnonzero((trace.kernel == 1) & (trace.q_tile == 1) & (trace.kv_tile == 0))[0])
    shown = stands(run, data, step, "dK")
    assert {name: each[0] for name, each in shown.items()} == {
        "Q": "Q",
        "K": "K",
        "S": "P",
        "lse": "lse",
        "dO": "dO",
        "V": "V",
        "dS": "dS",
        "D": "D",
        "dV": "acc_dv",
        "dK": "acc_dk",
    }


def softmax_rows(run, data, step):
    script = """(() => {
      const m = model.makeModel(given.data);
      const states = m.offsets.map((_, row) => figure.softmaxState(m, given.step, row));
      return [states, figure.tellingRow(m, given.step)];
    })()"""
    return run(script, {"data": data, "step": step})


def test_the_state_before_a_step_is_that_after_the_one_before_it(run):
    trace = run_traced(FULL, "flash2")
    data = player_data(trace, "here", GPU)
    states, telling = softmax_rows(run, data, 1)
    for row, state in enumerate(states):
        assert state["oldM"] == trace.row_max[0, row]
        assert state["oldL"] == trace.row_sum[0, row]
        assert state["m"] == trace.row_max[1, row]
    grows = (np.diff(trace.row_max[:3], axis=0) > 0).sum(axis=0)
    assert grows[telling] == grows.max() > 0
    first, _ = softmax_rows(run, data, 3)  # the first step of the second query tile
    assert first[0]["oldL"] == 0
    assert first[0]["alpha"] == 0


def test_the_tile_that_is_opened_holds_the_picked_row(run):
    """With the key tile in progress, if the row meets it; else the nearest step of the row's query tile."""
    problem = AttentionProblem(q_len=12, kv_len=12, head_dim=16, block_m=4, block_n=4, mask="causal")
    trace = run_traced(problem, "flash2")  # steps: tile 0: key 0; 1: 0, 1; 2: 0, 1, 2
    data = player_data(trace, "here", GPU)
    script = "figure.stepToOpen(model.makeModel(given.data), given.step, given.pinned)"

    def opened(step, q=None, head=0):
        pinned = None if q is None else {"head": head, "q": q, "row": 0}
        return run(script, {"data": data, "step": step, "pinned": pinned})

    assert [opened(step) for step in range(6)] == list(range(6))
    assert [opened(step, q=1) for step in range(6)] == [1, 1, 2, 1, 2, 2]
    assert opened(0, q=2) == 3
    assert opened(3, q=1, head=1) == -1
    blind = problem.with_(kv_len=4)
    data = player_data(run_traced(blind, "flash2"), "here", GPU)
    assert opened(1, q=0) == -1  # the rows of this tile see no key


def test_a_duel_and_a_run_without_matrices_open_no_tile(run):
    trace = run_traced(FULL, "flash2")
    both = duel_data((trace, "a"), (trace, "b"), GPU)
    assert all(data["matrices"] == {} for data in both["runs"])
    larger = player_data(run_traced(FULL.with_(block_n=32), "flash2"), "here", GPU)
    assert larger["matrices"] == {}
    assert run("figure.knowsRow(model.makeModel(given), 0)", larger) is False
    assert run("figure.knowsRow(model.makeModel(given), 0)", player_data(trace, "here", GPU)) is True
    observed = player_data(run_traced(FULL, "standard"), "here", GPU)
    assert run("figure.figureOf(model.makeModel(given), 0)", observed) is None


def steady(value):
    """Three significant digits, zeros included."""
    return np.format_float_positional(value, 3, unique=False, fractional=False, trim="k")


SAYS = """(() => {
  const m = model.makeModel(given.data);
  const phase = m.phases[given.step].find((each) => each.name === given.phase);
  const at = { step: given.step, phase, kernel: m.kernel[given.step], complete: false };
  return sentences.sentenceOf(m, at, given.row);
})()"""


def says(run, data, step, phase, row=0):
    return run(SAYS, {"data": data, "step": step, "phase": phase, "row": row})


def test_the_sentence_of_a_rescale_has_the_numbers_of_the_run(run):
    trace = run_traced(FULL, "flash2")
    data = player_data(trace, "here", GPU)
    grown = [
        (step, row)
        for step in (1, 2)
        for row in range(4)
        if trace.row_max[step, row] > trace.row_max[step - 1, row]
    ]
    step, row = grown[0]
    old, new = trace.row_max[step - 1, row], trace.row_max[step, row]
    words = says(run, data, step, "rescale", row)
    shown = steady(trace.alpha[step, row])
    assert f"m of row {row} rose from " in words
    assert f"= {shown} times: l = {shown} × {steady(trace.row_sum[step - 1, row])} + " in words
    assert np.exp(old - new) == pytest.approx(trace.alpha[step, row], rel=1e-5)
    first = says(run, data, 0, "rescale", row)
    assert "α = e^(−∞) = 0" in first
    steps = [(step, row) for step in (1, 2) for row in range(4) if (step, row) not in grown]
    step, row = steps[0]
    assert "so α = e^0 = 1 and nothing shrinks" in says(run, data, step, "rescale", row)
    assert "m stays" in says(run, data, step, "row max", row)


def test_a_row_that_the_mask_leaves_no_key_is_told_without_numbers_of_a_max(run):
    problem = AttentionProblem(q_len=8, kv_len=4, head_dim=16, block_m=8, block_n=4, mask="causal")
    data = player_data(run_traced(problem, "flash2"), "here", GPU)
    assert says(run, data, 0, "row max", 1) == "Row 1 sees no key: its max m stays −∞."
    assert says(run, data, 0, "exponentials", 1) == "Row 1 sees no key: its row of P is 0."
    assert says(run, data, 0, "rescale", 1) == "Row 1 sees no key: l and O stay 0."
    end = "The rows are finished. Row 1 sees no key: its row of O is 0, and its lse is −∞."
    assert says(run, data, 0, "store O, lse", 1).endswith(end)
    assert "sees no key" not in says(run, data, 0, "store O, lse", 4)
    assert "Row 1 may not see keys 0 to 3." in says(run, data, 0, "mask", 1)
    assert "may not see keys 1 to 3." in says(run, data, 0, "mask", 4)


def test_a_row_whose_keys_come_later_has_seen_none_so_far(run):
    """A window: the last rows of the tile see none of its first keys."""
    problem = AttentionProblem(q_len=8, kv_len=8, head_dim=16, block_m=8, block_n=4, mask="window")
    data = player_data(run_traced(problem.with_(window_left=1), "flash2"), "here", GPU)
    assert says(run, data, 0, "row max", 7) == "Row 7 has seen no key so far: its max m stays −∞."
    assert says(run, data, 0, "exponentials", 7) == "Row 7 has seen no key so far: its row of P is 0."


def test_a_row_without_a_key_has_no_weights_backward(run):
    problem = AttentionProblem(q_len=8, kv_len=4, head_dim=16, block_m=8, block_n=4, mask="causal")
    data = player_data(run_traced(problem, "backward"), "here", GPU)
    told = "Row 1 sees no key: its lse is −∞, and its row of P is 0."
    assert says(run, data, 1, "P from lse", 1).endswith(told)
    assert "sees no key" not in says(run, data, 1, "P from lse", 4)


def test_the_keys_of_a_row_are_those_of_the_mask(run):
    for problem in (FULL, FULL.with_(mask="causal", kv_len=6), FULL.with_(mask="window", window_left=2)):
        data = player_data(run_traced(problem, "flash2"), "here", GPU)
        for row in range(problem.q_len):
            first, end = run("model.keysOfRow(given.problem, given.row)", {**data, "row": row})
            seen = problem.band.visible_keys(row)
            assert range(first, end) == range(*seen) or (first == end and seen[0] >= seen[1])


def test_a_load_names_its_rows_and_its_bytes(run, traced):
    trace, data = traced["flash2"]
    step = int(np.flatnonzero((trace.q_tile == 2) & (trace.kv_tile == 3))[0])
    assert says(run, data, step, "load K") == "Rows 12 to 13 of K come from HBM to the chip: 64 B."


def test_every_phase_of_every_algorithm_has_a_sentence(run):
    told = set(run("Object.keys(sentences.SENTENCES)"))
    entries = ALGORITHMS.values()
    phases = [phase for entry in entries for kernel in entry.kernels for phase in kernel.phases]
    assert {phase.tells for phase in phases if phase.tells} == told
    silent = {phase.name for phase in phases if not (phase.tells or phase.loads or phase.stores)}
    assert silent <= {"row sum", "softmax"} | {
        phase.name
        for entry in entries
        if entry.runs_in == "torch"
        for kernel in entry.kernels
        for phase in kernel.phases
    }


def test_sentences_need_no_matrices(run):
    data = player_data(run_traced(FULL.with_(block_n=32, block_m=32, q_len=40), "flash2"), "here", GPU)
    names = run("model.makeModel(given).phases[0].map((phase) => phase.name)", data)
    for name in names:
        words = says(run, data, 0, name)
        assert words
        assert "undefined" not in words
        assert "NaN" not in words


STATE = {"oldM": 0.5, "oldL": 2.0, "m": 1.0, "l": 0.0, "alpha": float(np.exp(-0.5))}
SCORES = [1.0, -0.2, 0.3]
ADDED = float(np.exp(np.array(SCORES) - 1).sum())
STATE["l"] = STATE["alpha"] * 2 + ADDED


@pytest.mark.parametrize(
    ("answer", "right", "hint"),
    [
        ({}, [True, True, True], ""),
        ({"l": 2 + ADDED}, [True, True, False], "not rescaled"),
        ({"l": ADDED}, [True, True, False], "the old sum is missing"),
        ({"l": STATE["alpha"] * 2 + np.exp(np.array(SCORES) - 0.5).sum()}, [True, True, False], "old max"),
        ({"l": STATE["alpha"] * (2 + ADDED)}, [True, True, False], "belongs to the old sum alone"),
        ({"alpha": np.exp(0.5)}, [True, False, True], "upside down"),
        ({"alpha": 2**-0.5}, [True, False, True], "base 2"),
        ({"m": 0.5}, [False, True, True], "larger than the old max"),
        ({"m": None}, [False, True, True], "give a number"),
    ],
)
def test_a_prediction_is_judged_part_by_part(run, answer, right, hint):
    given = {"m": STATE["m"], "alpha": STATE["alpha"], "l": STATE["l"]} | {
        name: None if value is None else float(value) for name, value in answer.items()
    }
    script = """predict.judge(
      Object.fromEntries(Object.entries(given.answer).map(([name, value]) => [name, value ?? NaN])),
      given.state, given.scores)"""
    lines = run(script, {"answer": given, "state": STATE, "scores": SCORES})
    assert [line["right"] for line in lines] == right
    assert hint in " ".join(line["words"] for line in lines if not line["right"])


@pytest.mark.parametrize(
    ("m", "is_right", "hint"),
    [(0.4, False, "nothing here is that large: the largest score so far is −0.200"), (-0.2, True, "right")],
)
def test_at_the_first_tile_no_m_is_the_old_one(run, m, is_right, hint):
    """The old max is −∞, to which no number is near."""
    script = """predict.judge({ m: given.m, alpha: 0, l: 1 },
      { oldM: -Infinity, oldL: 0, m: -0.2, l: 1, alpha: 0 }, [-0.2, -Infinity])[0]"""
    verdict = run(script, {"m": m})
    assert verdict["right"] == is_right
    assert hint in verdict["words"]


def test_a_row_that_sees_no_key_keeps_its_max(run):
    script = """predict.judge({ m: 7, alpha: 1, l: 0 },
      { oldM: -Infinity, oldL: 0, m: -Infinity, l: 0, alpha: 1 }, [-Infinity])[0].right"""
    assert run(script) is False


def test_a_slip_in_m_counts_once(run):
    """alpha and l that follow from a wrong m are told to be right for it."""
    m, old = 0.7, STATE["oldM"]
    alpha = float(np.exp(old - m))
    wrong = alpha * 2 + float(np.exp(np.array(SCORES) - m).sum())
    answer = {"m": m, "alpha": alpha, "l": wrong}
    lines = run(
        "predict.judge(given.answer, given.state, given.scores)",
        {"answer": answer, "state": STATE, "scores": SCORES},
    )
    assert "right for your m" in lines[1]["words"]
    assert "right for your m and α" in lines[2]["words"]


@pytest.mark.parametrize(
    ("text", "value"), [("0.5", 0.5), (" −1,25 ", -1.25), ("-3", -3.0), ("", None), ("a", None)]
)
def test_numbers_are_read_as_people_write_them(run, text, value):
    assert run("[predict.parseNumber(given)].map((n) => Number.isNaN(n) ? null : n)[0]", text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.9996, "2.00"), (1, "1"), (-0.5, "−0.500"), (0.03004, "0.0300"), (0, "0"), (12345.6, "12,300")],
)
def test_zeros_at_the_end_are_kept(run, value, text):
    assert run("formats.formatSteady(given)", value) == text
