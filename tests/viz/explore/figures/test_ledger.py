"""Traffic by tensor: counted beside modelled, two runs beside each other."""

from kernels.algorithms import run_traced
from kernels.algorithms.standard.traffic import requested_ledger
from kernels.problem import AttentionProblem
from tests.viz.player.runs import hand_built
from viz.explore.figures import gradient_figures, ledger_figure, ledgers_of, state_figures
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


def test_the_ledger_sets_counted_beside_modelled():
    trace = hand_built(PROBLEM)
    counted = {"Q": 20, "K": 100, "V": 200, "O": 28, "lse": 0}
    standard, ours = ledger_figure(*ledgers_of(trace), theme.LIGHT).data
    assert "modelled" in standard.name
    assert "counted: 348 B" in ours.name
    assert dict(zip(ours.y, ours.x, strict=True)) == counted | {"S": 0, "P": 0}
    assert dict(zip(standard.y, standard.x, strict=True)) == requested_ledger(PROBLEM) | {"lse": 0}


def test_two_runs_are_compared_tensor_by_tensor():
    first, second = ledgers_of(*(run_traced(PROBLEM, name) for name in ("flash2", "flash1")))
    assert second.label.startswith("B: FlashAttention-1")
    assert second.bytes["K"] < first.bytes["K"]  # key outer reads every key tile once
    assert second.bytes["O"] > first.bytes["O"]  # and O at every step


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
