"""The reader of config.json: real ones, and what it says of those that it does not take."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.models import MODELS
from kernels.models.config import from_config
from kernels.problem import InvalidProblem
from tests.kernels.models.configs import BAD, LLAMA, NAMED, OTHERS


@pytest.mark.parametrize(
    ("config", "wanted"),
    [(MODELS[name].config, wanted) for name, wanted in NAMED.items()]
    + [(json.dumps(config), wanted) for config, wanted in OTHERS.values()],
    ids=[*NAMED, *OTHERS],
)
def test_a_published_config_is_read_and_its_short_form_gives_the_same(config, wanted):
    model = from_config(config)
    found = (model.q_heads, model.kv_heads, model.head_dim, model.dtype, model.kinds, model.window)
    assert found == wanted
    assert from_config(model.config) == model
    assert "architectures" not in model.config


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


APART = {"gemma2_9b": "softcap of 50", "gemma3_27b": "1/√168", "gpt_oss_20b": "sink"}


def test_what_is_taken_for_a_missing_field_and_what_a_problem_cannot_have_are_named():
    kinds, dtype = MODELS["gemma2_9b"].notes
    assert "one layer of 2 is full" in kinds
    assert "float16" in dtype
    assert "num_key_value_heads" in MODELS["gpt2"].notes[0]
    assert from_config(json.dumps(LLAMA)).notes == ()
    apart = {name: " ".join(model.apart) for name, model in MODELS.items() if model.apart}
    assert apart.keys() == APART.keys()
    assert all(APART[name] in text for name, text in apart.items())
    assert MODELS["gemma2_9b"].scores == {"softcap": 50}
    assert MODELS["gpt_oss_20b"].scores == {"sink_logit": 1}
    assert from_config(json.dumps(LLAMA | {"attn_logit_softcapping": 30.5})).scores == {}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ["model_type", "layer_types", "text_config", "dtype", "multi_query", "alibi", "use_sliding_window"]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from([*LLAMA, *FIELDS, "sliding_window", "head_dim"]), VALUES, max_size=4))
def test_no_value_of_any_field_is_a_traceback(changes):
    try:
        model = from_config(json.dumps({**LLAMA, **changes}))
    except InvalidProblem:
        return
    assert model.problem(64, kind=next(iter(model.kinds))).q_heads == model.q_heads


@pytest.mark.parametrize(
    ("change", "apart"),
    [
        ({"model_type": "bloom"}, "ALiBi on its scores"),
        ({"model_type": "mpt", "attn_config": {"alibi": True}}, "ALiBi on its scores"),
        ({"position_embedding_type": "alibi"}, "ALiBi on its scores"),
        ({"attention_multiplier": 0.0078}, "attention_multiplier 0.0078"),
        ({"alibi": "false"}, ""),
    ],
)
def test_what_is_done_to_scores_is_found_by_the_names_that_models_give_it(change, apart):
    assert "".join(from_config(json.dumps(LLAMA | change)).apart) == apart


def test_key_heads_may_lie_in_a_config_of_the_attention():
    without = {name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}
    assert from_config(json.dumps(without | {"attn_config": {"kv_n_heads": 4}})).kv_heads == 4
