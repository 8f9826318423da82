"""The reader of config.json: real ones, and what it says of those that it does not take."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.models import from_config
from kernels.problem import InvalidProblem
from tests.kernels.models.configs import BAD, GOOD, LLAMA


@pytest.mark.parametrize("name", GOOD)
def test_a_published_config_is_read_and_its_short_form_gives_the_same(name):
    config, wanted = GOOD[name]
    model = from_config(json.dumps(config))
    found = (model.q_heads, model.kv_heads, model.head_dim, model.dtype, model.kinds, model.window)
    assert found == wanted
    assert from_config(model.config) == model
    assert len(model.config) <= len(json.dumps(config))


@pytest.mark.parametrize("name", BAD)
def test_a_config_that_is_not_accepted_is_said_by_its_field(name):
    config, words = BAD[name]
    with pytest.raises(InvalidProblem, match=words):
        from_config(json.dumps(config))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON.*whole file"),
        ("{'num_attention_heads': 32}", "not JSON"),
        ("[1, 2]", "expected an object"),
        ("[" * 60_000, "nested too deeply"),
        ("9" * 5000, "not JSON"),
        (json.dumps({"x": "y" * 70_000}), "at most 65536 characters"),
    ],
    ids=["empty", "python", "list", "deep", "digits", "long"],
)
def test_what_is_not_a_config_is_said_in_few_words(text, words):
    with pytest.raises(InvalidProblem, match=words) as error:
        from_config(text)
    assert len(str(error.value)) < 300


def test_what_is_taken_for_a_missing_field_is_noted():
    (kinds,) = from_config(json.dumps(GOOD["gemma2"][0])).notes
    assert "one layer of 2 is full" in kinds
    heads, dtype = from_config(json.dumps(GOOD["gpt2"][0])).notes
    assert "num_key_value_heads" in heads
    assert "float16" in dtype
    assert from_config(json.dumps(LLAMA)).notes == ()


def test_what_a_problem_cannot_have_is_named():
    assert "softcap of 50" in from_config(json.dumps(GOOD["gemma2"][0])).apart[0]
    assert "sink" in from_config(json.dumps(GOOD["gpt-oss"][0])).apart[0]
    assert "168" in from_config(json.dumps(GOOD["gemma3, text and pictures"][0])).apart[0]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ["model_type", "layer_types", "text_config", "dtype", "multi_query", "alibi", "use_sliding_window"]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from([*LLAMA, *FIELDS, "sliding_window", "head_dim"]), VALUES, max_size=4))
def test_no_value_of_any_field_is_a_traceback(changes):
    try:
        model = from_config(json.dumps({**LLAMA, **changes}))
    except InvalidProblem:
        return
    assert model.problem(64, kind=next(iter(model.kinds))).q_heads == model.q_heads
