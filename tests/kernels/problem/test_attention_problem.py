"""AttentionProblem: what is accepted, and what a refusal says."""

import pytest
import torch

from kernels.problem import DTYPES, LIMITS, AttentionProblem, InvalidProblem


def test_defaults_are_valid_and_derived_shapes_follow():
    problem = AttentionProblem(q_len=100, kv_len=130, block_m=32, block_n=64, q_heads=4, kv_heads=2, batch=3)
    assert (problem.q_tiles, problem.kv_tiles) == (4, 3)
    assert problem.q_shape == (3, 4, 100, 64)
    assert problem.kv_shape == (3, 2, 130, 64)
    assert problem.scale == pytest.approx(64**-0.5)
    assert (problem.heads, problem.key_heads, problem.group_size) == (12, 6, 2)
    assert problem.packed_rows == 200


def test_a_field_that_is_not_given_means_what_it_always_meant():
    """Links and documents leave out the fields that have their default."""
    of_shape = {"batch": 1, "q_heads": 1, "kv_heads": 1, "q_len": 256, "kv_len": 256, "head_dim": 64}
    of_run = {"dtype": "float16", "mask": "full", "block_m": 64, "block_n": 64, "inputs": "normal", "seed": 0}
    of_mask = {"window_left": 128, "window_right": 0, "kv_splits": 0, "text": ""}
    of_pattern = {"documents": "", "prefix": 4, "expression": "k <= q"}
    of_scores = {"softcap": 0, "alibi": 0, "sink_logit": 0}
    assert AttentionProblem().as_dict() == of_shape | of_run | of_mask | of_pattern | of_scores
    assert all(getattr(torch, name).itemsize == size for name, size in DTYPES.items())


@pytest.mark.parametrize("name", LIMITS)
def test_the_smallest_and_the_largest_value_are_accepted_and_none_beyond(name):
    (low, high), others = LIMITS[name], {"q_heads": 1024} if name == "kv_heads" else {}
    for value in (low, high):
        assert getattr(AttentionProblem(**others, **{name: value}), name) == value
    for value in (low - 1, high + 1):
        words = f"{name}={value} is not accepted: expected a whole number from {low} to {high}"
        with pytest.raises(InvalidProblem, match=words):
            AttentionProblem(**others, **{name: value})


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({"head_dim": 64.0}, "a whole number from 16 to 256."),
        ({"batch": True}, "a whole number"),
        ({"dtype": "float8"}, "float16, bfloat16, float32."),
        ({"block_n": 64.0}, "4, 8, 16, 32, 64, 128."),
        ({"q_heads": 6, "kv_heads": 4}, "it must divide q_heads=6."),
    ],
    ids=str,
)
def test_a_refusal_names_field_value_and_what_is_accepted(change, accepted):
    with pytest.raises(InvalidProblem) as caught:
        AttentionProblem(**change)
    field, value = list(change.items())[-1]
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}={value!r} is not accepted: ")
    assert accepted in str(caught.value)
    again = InvalidProblem.from_message(field, str(caught.value))  # as another process is told
    assert (again.field, str(again)) == (field, str(caught.value))
