"""One picked row of tiles that are too large to be shown whole: its numbers, its sentences."""

import re

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem
from tests.viz.player.runs import GPU
from tests.viz.player.test_figure import STANDS, says, steady
from viz.player.data import player_data

pytestmark = pytest.mark.browser

LARGE = AttentionProblem(q_len=70, kv_len=100, head_dim=32, block_m=32, block_n=32, mask="causal")


@pytest.fixture(scope="module")
def large():
    """(trace, player data) of tiles of 32 x 32, with the numbers of row 5 of each query tile."""
    trace = run_traced(LARGE, "flash2", row=5)
    return trace, player_data(trace, "here", GPU)


def test_a_picked_row_of_large_tiles_stands_in_its_slots(run, large):
    trace, data = large
    step = int(np.flatnonzero((trace.q_tile == 1) & (trace.kv_tile == 1))[0])
    script = f"""(() => {{ {STANDS}
      const figures = figure.figureOf(m, given.step);
      const rowIn = (phase, name) => {{
        const slot = figures.slots.find((each) => each.name === name);
        const shown = figure.standsIn(m, figures, slot, at(given.step, phase));
        return shown && [figure.rowOf(shown, 5), figure.rowOf(shown, 4).every(Number.isNaN)];
      }};
      return [rowIn("QK^T", "S"), rowIn("exponentials", "S"), rowIn("PV", "O"), rowIn("QK^T", "K"),
              rowIn("load K", "O")];
    }})()"""
    scores, p, acc, key_tile, before = run(script, {"data": data, "step": step})
    assert scores[0] == pytest.approx((trace.matrices["QK^T"][step, 0] * LARGE.scale).tolist())
    assert p[0] == pytest.approx(trace.matrices["P"][step, 0].tolist())
    assert acc[0] == pytest.approx(trace.acc[step, 5].tolist())
    assert before[0] == pytest.approx(trace.acc[step - 1, 5].tolist())
    assert key_tile is None
    assert all(shown[1] for shown in (scores, p, acc))  # nothing is said of other rows


def test_sentences_tell_the_picked_row_with_its_numbers(run, large):
    trace, data = large
    step = int(np.flatnonzero((trace.q_tile == 1) & (trace.kv_tile == 2))[0])  # the mask cuts it
    row = int(run("model.makeModel(given).offsets.indexOf(5)", data))
    assert run("figure.toldRow(model.makeModel(given), 0, null)", data) == row
    largest = float(np.nanmax(trace.matrices["QK^T"][step, 0])) * LARGE.scale
    assert steady(largest).replace("-", "−") in says(run, data, step, "QK^T", row)
    hidden = says(run, data, step, "mask", row)
    assert hidden.endswith("Row 37 may not see keys 68 to 95.")
    added = steady(float(trace.matrices["P"][step, 0].sum()))
    assert f"add up to {added}" in says(run, data, step, "exponentials", row)
    other = says(run, data, step, "QK^T", row + 1)
    assert "NaN" not in other
    assert "The largest score" not in other


def test_of_many_scores_a_prediction_is_asked_by_their_sum(run, large):
    """Nobody adds up 32 exponentials by hand: what is given is enough for m, alpha and l."""
    trace, data = large
    step = int(np.flatnonzero((trace.q_tile == 1) & (trace.kv_tile == 1))[0])
    script = """(() => {
      const m = model.makeModel(given.data);
      const form = new predict.Predict({ next() {} });
      form.show({ model: m, step: given.step, row: m.offsets.indexOf(5), name: 37 });
      const asked = form.given.textContent;
      form.inputs.l.value = "1";
      form.compare();
      const marks = form.feedback.textContent;
      form.reveal();
      return [asked, marks === form.feedback.textContent, form.truth.textContent, form.inputs.l.value];
    })()"""
    asked, keeps_marks, truth, typed = run(script, {"data": data, "step": step})
    scores = trace.matrices["QK^T"][step, 0].astype(np.float64) * LARGE.scale
    top, total = re.search(r"in this tile is (\S+), and all .* add up to (\S+)\. What", asked).groups()
    top = float(top.replace("−", "-"))
    assert top == pytest.approx(scores.max(), rel=0.01)
    old_m, old_l = (float(values[step - 1, 5]) for values in (trace.row_max, trace.row_sum))
    m = max(old_m, top)
    l = np.exp(old_m - m) * old_l + np.exp(top - m) * float(total)
    assert l == pytest.approx(float(trace.row_sum[step, 5]), rel=0.01)
    assert keeps_marks
    assert typed == "1"
    assert truth.startswith("m = ")


def test_a_strip_says_its_largest_score_its_sum_and_any_cell(run, large):
    trace, data = large
    step = int(np.flatnonzero((trace.q_tile == 1) & (trace.kv_tile == 2))[0])  # the mask cuts it
    script = f"""(() => {{ {STANDS}
      const said = [];
      const strips = new rowstrips.RowStrips((words) => said.push(words));
      const palette = given.data.palettes.light;
      const labels = (phase) => {{
        strips.draw(m, palette, figure.figureOf(m, given.step), at(given.step, phase), 5);
        return strips.strips.map((strip) => strip.label.textContent);
      }};
      const all = ["QK^T", "mask", "exponentials"].map((phase) => labels(phase)[1]);
      const scores = strips.strips[1];
      scores.row.dispatchEvent(new FocusEvent("focus"));
      const press = (key) => scores.row.dispatchEvent(new KeyboardEvent("keydown", {{ key }}));
      ["ArrowRight", "End"].forEach(press);
      scores.row.dispatchEvent(new FocusEvent("blur"));
      return [all, said, strips.strips.map((strip) => strip.slot.name)];
    }})()"""
    (scores, masked, weights), said, slots = run(script, {"data": data, "step": step})
    assert slots == ["Q", "S", "O"]  # K and V are not of a row
    row = trace.matrices["QK^T"][step, 0] * LARGE.scale
    seen = int(np.isfinite(trace.matrices["S"][step, 0]).sum())
    assert f"with key {64 + int(row.argmax())}" in scores
    assert f"with key {64 + int(row[:seen].argmax())}" in masked
    assert f"{32 - seen} of 32 hidden by the mask" in masked
    p = trace.matrices["P"][step, 0]
    assert float(weights.rpartition(" ")[2]) == pytest.approx(float(p.sum()), rel=0.005)
    cells = [re.search(r"key (\d+): (\S+)$", words).groups() for words in said[:3]]
    assert [int(key) for key, _ in cells] == [64, 65, 95]
    assert [float(number) for _, number in cells] == pytest.approx(p[[0, 1, 31]].tolist(), rel=0.005)
    assert said[3] == ""
