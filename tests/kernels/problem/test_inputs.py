"""make_inputs: seeded, the same numbers everywhere, and each distribution does what its name says."""

import pytest
import torch

from kernels.problem import INPUTS, AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.helpers import tiny
from tests.kernels.oracle.intermediates import oracle


def scores_of(problem):
    return oracle(*make_inputs(problem), scale=problem.scale, band=problem.band)


@pytest.mark.parametrize("inputs", INPUTS)
def test_shapes_types_and_seeds(inputs):
    problem = tiny(20, 30, batch=2, q_heads=4, kv_heads=2, dtype="bfloat16", inputs=inputs)
    drawn = make_inputs(problem)
    assert [tuple(tensor.shape) for tensor in drawn] == [problem.q_shape, problem.kv_shape, problem.kv_shape]
    assert {tensor.dtype for tensor in drawn} == {torch.bfloat16}
    assert all(map(torch.equal, drawn, make_inputs(problem)))
    assert not torch.equal(drawn[2], make_inputs(problem.with_(seed=1))[2])


SUMS = {
    "normal": (-1082.7807804094627, -576.1501733267214, 456.6258548675105),
    "growing_max": (18473.860930621624, 1281.1924966573715, 456.6258548675105),
    "falling_max": (18473.860930621624, -1338.8075256347656, 456.6258548675105),
    "large": (-17324.492486551404, -9218.402773227543, 456.6258548675105),
    "one_hot": (32303.481732532382, -592.2503458061256, -651.0058718062937),
    "constant": (9264.0, 7788.0, -550.1431349860504),
    "text": (10215.996571507305, 5651.9743572406005, -14.506292921490967),
    "shared": (-1082.7807804094627, -576.1501733267214, 456.6258548675105),
}
"""Of query, key and value: the sum of the elements, each times its place counted from 1."""


def sum_with_places(tensor):
    flat = tensor.double().flatten()
    return float(flat @ torch.arange(1, len(flat) + 1, dtype=torch.float64))


@pytest.mark.parametrize("inputs", INPUTS)
def test_the_numbers_are_those_that_recordings_were_made_with(inputs):
    problem = tiny(6, 11, block_n=4, q_heads=2, mask="causal", dtype="float32", inputs=inputs, seed=3)
    tensors = make_inputs(problem)
    assert [sum_with_places(tensor) for tensor in tensors] == pytest.approx(SUMS[inputs], rel=1e-6)


def test_the_gradient_of_the_output_is_drawn_apart_from_the_inputs():
    problem = tiny(6, 11, q_heads=2, dtype="float32", seed=3)
    d_out = make_d_output(problem.with_(dtype="bfloat16"))
    assert (tuple(d_out.shape), d_out.dtype) == ((1, 2, 6, 16), torch.bfloat16)
    d_out = make_d_output(problem)
    assert sum_with_places(d_out) == pytest.approx(1492.0662934994325, rel=1e-6)


def test_one_hot_spreads_its_picks_over_the_keys_that_a_query_sees():
    """A query that sees no key picks one nevertheless."""
    problem = AttentionProblem(q_len=300, kv_len=8, head_dim=64, inputs="one_hot")
    picks = scores_of(problem).weights[0, 0].argmax(dim=-1)
    assert sorted(set(picks.tolist())) == list(range(8))
    query, _, _ = make_inputs(problem.with_(mask="causal"))
    assert torch.isfinite(query).all()


@pytest.mark.parametrize(("left", "right"), [(0, 0), (6, 2), (128, 0)])
def test_one_hot_gives_nearly_all_attention_to_one_key_that_the_query_sees(left, right):
    window = {"mask": "window", "window_left": left, "window_right": right}
    problem = tiny(50, 70, head_dim=64, inputs="one_hot", **window)
    query, key, _ = make_inputs(problem)
    picks = (query[0, 0].float() @ key[0, 0].float().T).argmax(dim=-1).tolist()
    for row, pick in enumerate(picks):
        first, end = problem.band.visible_keys(row)
        assert first <= pick < end, row
    assert scores_of(problem).weights.max(dim=-1).values.min() > 0.99


@pytest.mark.parametrize(("inputs", "sign"), [("growing_max", 1), ("falling_max", -1)])
def test_the_row_max_moves_from_tile_to_tile_and_stays_near_zero_however_many_there_are(inputs, sign):
    """Scores go from about -128 to about 128: low precision is finest near 0."""
    problem = AttentionProblem(q_len=4, kv_len=2048, head_dim=64, block_n=4, dtype="float32", inputs=inputs)
    scores = scores_of(problem).scores
    assert scores.abs().max() < 150
    assert scores.max() > 110
    assert scores.min() < -110
    few = scores_of(problem.with_(q_len=16, kv_len=512, block_n=16)).scores[0, 0].reshape(16, 32, 16)
    assert (sign * few.max(dim=-1).values.diff(dim=1) > 0).all()


def test_large_scores_are_in_the_hundreds_and_constant_gives_the_mean_of_the_visible_values():
    scores = scores_of(AttentionProblem(q_len=64, kv_len=64, inputs="large")).scores
    assert 200 < scores.std() < 320
    exact = scores_of(tiny(8, 8, mask="causal", inputs="constant"))
    torch.testing.assert_close(exact.output[0, 0, 5], exact.value[0, 0, :6].mean(dim=0))


def test_tensors_that_just_fit_the_memory_of_the_host_are_drawn(monkeypatch):
    problem = tiny(4, 6)
    needed = 4 * 16 * (4 + 6 + 6)
    monkeypatch.setattr("kernels.problem.inputs.available_memory_bytes", lambda: needed)
    assert make_inputs(problem)[0].shape == problem.q_shape
    monkeypatch.setattr("kernels.problem.inputs.available_memory_bytes", lambda: needed - 1)
    with pytest.raises(MemoryError, match=f"tried to allocate {needed} bytes"):
        make_inputs(problem)
