"""Traffic by tensor: counted beside modelled, two runs beside each other."""

from kernels.algorithms import run_traced
from kernels.algorithms.standard.traffic import requested_ledger
from kernels.problem import AttentionProblem
from tests.viz.player.runs import hand_built
from viz.explore.figures.ledger import difference_table, kernel_ledger, ledger_figure, ledgers_of
from viz.explore.figures.row_state import gradient_figures, state_figures
from viz.shared import theme
from viz.shared.formats import format_bytes

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


def test_the_ledger_sets_counted_beside_modelled():
    trace = hand_built(PROBLEM)
    assert kernel_ledger(trace) == {"Q": 20, "K": 100, "V": 200, "O": 28, "lse": 0}
    standard, ours = ledger_figure(*ledgers_of(trace), theme.LIGHT).data
    assert "modelled" in standard.name
    assert "counted: 348 B" in ours.name
    assert dict(zip(ours.y, ours.x, strict=True)) == kernel_ledger(trace) | {"S": 0, "P": 0}
    assert dict(zip(standard.y, standard.x, strict=True)) == requested_ledger(PROBLEM) | {"lse": 0}


def test_two_runs_are_compared_tensor_by_tensor():
    runs = [run_traced(PROBLEM, name) for name in ("flash2", "flash1")]
    first, second = ledgers_of(*runs)
    assert second.label.startswith("B: FlashAttention-1")
    rows = {row["tensor"]: row for row in difference_table(first, second)}
    assert rows["all"]["A"] == format_bytes(runs[0].total_bytes)
    assert rows["all"]["B"] == format_bytes(runs[1].total_bytes)
    assert rows["K"]["B − A"].startswith("−")  # key outer reads every key tile once
    assert rows["O"]["B − A"].startswith("+")  # and O at every step


def test_a_backward_run_is_set_beside_the_standard_backward_pass():
    trace = run_traced(PROBLEM, "backward")
    own, standard = ledgers_of(trace)
    assert standard.modelled
    assert {"dP", "dS", "P"} <= set(standard.bytes)
    assert not {"dP", "dS", "P", "S"} & set(own.bytes)
    figures = state_figures(trace, theme.LIGHT)
    assert list(figures) == ["dQ", "dK", "dV"]
    for figure in gradient_figures(trace, theme.LIGHT).values():
        for line in figure.data:
            assert line.y[-1] <= line.y[0]  # the sum arrives at the final gradient
