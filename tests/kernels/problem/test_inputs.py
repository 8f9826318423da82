"""make_inputs: seeded, the same numbers everywhere, and each distribution does what its name says."""

import pytest
import torch

from kernels.oracle.exact import oracle
from kernels.problem import INPUTS, AttentionProblem
from kernels.problem.inputs import make_inputs


def scores_of(problem):
    return oracle(*make_inputs(problem), scale=problem.scale, band=problem.band)


@pytest.mark.parametrize("inputs", INPUTS)
def test_shapes_types_and_seeds(inputs):
    problem = AttentionProblem(
        batch=2, q_heads=4, kv_heads=2, q_len=20, kv_len=30, head_dim=16, dtype="bfloat16", inputs=inputs
    )
    query, key, value = make_inputs(problem)
    assert (tuple(query.shape), tuple(key.shape), tuple(value.shape)) == (
        problem.q_shape,
        problem.kv_shape,
        problem.kv_shape,
    )
    assert query.dtype == key.dtype == value.dtype == torch.bfloat16
    again, other = make_inputs(problem), make_inputs(problem.with_(seed=1))
    assert all(torch.equal(a, b) for a, b in zip((query, key, value), again, strict=True))
    assert not torch.equal(value, other[2])


def test_the_numbers_do_not_depend_on_the_machine():
    query, _, value = make_inputs(AttentionProblem(q_len=2, kv_len=2, head_dim=16, dtype="float32"))
    assert query[0, 0, 0, :3].tolist() == pytest.approx(
        [1.1176220178604126, -1.3871248960494995, -0.4265716075897217], abs=0
    )
    assert value[0, 0, 1, -1].item() == pytest.approx(-0.13884983956813812, abs=0)


def test_large_scores_are_in_the_hundreds():
    scores = scores_of(AttentionProblem(q_len=64, kv_len=64, inputs="large")).scores
    assert 200 < scores.std() < 320


def test_one_hot_gives_nearly_all_attention_to_one_visible_key():
    weights = scores_of(
        AttentionProblem(q_len=50, kv_len=70, head_dim=64, mask="causal", inputs="one_hot")
    ).weights
    assert weights.max(dim=-1).values.min() > 0.99


def test_constant_gives_the_mean_of_the_visible_values():
    exact = scores_of(AttentionProblem(q_len=8, kv_len=8, head_dim=16, mask="causal", inputs="constant"))
    torch.testing.assert_close(exact.output[0, 0, 5], exact.value[0, 0, :6].mean(dim=0))


@pytest.mark.parametrize(("inputs", "sign"), [("growing_max", 1), ("falling_max", -1)])
def test_the_row_max_moves_from_tile_to_tile(inputs, sign):
    problem = AttentionProblem(q_len=16, kv_len=512, head_dim=64, block_n=16, inputs=inputs)
    tile_max = scores_of(problem).scores[0, 0].reshape(16, 32, 16).max(dim=-1).values
    assert (sign * tile_max.diff(dim=1) > 0).all()


def test_tensors_beyond_the_memory_of_the_host_are_refused_before_they_are_drawn():
    problem = AttentionProblem(batch=1024, q_heads=1024, kv_heads=1024, q_len=1, kv_len=1 << 20, head_dim=256)
    with pytest.raises(
        MemoryError, match="tried to allocate 2251800887427072 bytes for query, key and value"
    ):
        make_inputs(problem)
