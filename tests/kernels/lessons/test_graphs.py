"""Sizes on the edges of the layer's graph, and the two sums of paths for two tokens."""

import pytest

from kernels.lessons.graphs import layer_flows, two_tokens
from kernels.problem import AttentionProblem


def test_square_tensors_stay_on_the_chip_and_the_others_have_d_features():
    flows = layer_flows(AttentionProblem(q_len=128, kv_len=128, head_dim=32))
    assert [(flow.source, flow.bytes) for flow in flows if flow.stays_on_chip] == [
        ("S", 2 * 128 * 128),
        ("P", 2 * 128 * 128),
    ]
    assert {flow.bytes for flow in flows if not flow.stays_on_chip} == {2 * 128 * 32}
    assert len(flows) == 9


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_paths_add_up_to_the_gradients(seed):
    v = two_tokens(seed, 1.5)
    d_value = sum(v["dO"][i, 0] * v["P"][i, 0] for i in (0, 1))
    assert d_value == pytest.approx(v["dV"][0, 0])
    d_score = sum(v["dP"][0, k] * v["J quotient"][0][k, 0] for k in (0, 1))
    assert d_score == pytest.approx(v["dS"][0, 0])
