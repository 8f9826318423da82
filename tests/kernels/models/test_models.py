"""The facts of models, the problems that follow, and what they cost."""

import pytest

from kernels.measure.nearest import NAIVE
from kernels.models import FIRST_MODEL, MODELS
from kernels.models.cost import OURS, costs, layer_memory
from kernels.models.model import PHASES
from kernels.problem import InvalidProblem
from kernels.problem.presets import PRESETS
from kernels.traffic.modelled import attention_flops
from tests.kernels.documents import measurement

EACH = pytest.mark.parametrize("name", MODELS)


@EACH
def test_facts_fit_each_other(name):
    model = MODELS[name]
    assert model.source.count("/") == 1
    assert model.q_heads % model.kv_heads == 0
    assert sum(model.kinds.values()) == len(model.layer_kinds)
    assert ("window" in model.kinds) == (model.window is not None)
    for phase in PHASES:
        for kind in model.kinds:
            problem = model.problem(2048, phase, kind, batch=3)
            assert (problem.batch, problem.q_heads, problem.kv_heads) == (3, model.q_heads, model.kv_heads)


def test_a_layer_is_causal_unless_its_window_hides_a_key():
    mistral = MODELS["mistral_7b"]
    short, long = (mistral.problem(length, kind="window") for length in (4096, 4097))
    assert short.mask == "causal"
    assert [long.band.visible_keys(row) for row in (4095, 4096)] == [(0, 4096), (1, 4097)]
    assert mistral.problem(10_000, "decode", "window").kv_len == 4096


def test_recorded_problems_are_those_of_their_models():
    """What is recorded of a head and of a decoding step plays at once."""
    llama = MODELS["llama3_8b"]
    assert llama.problem(8192, "decode") == PRESETS["decode"].problem
    assert llama.problem(2048).with_(q_heads=1, kv_heads=1) == PRESETS["llama3"].problem
    assert MODELS["gpt2"].problem(1024).with_(q_heads=1, kv_heads=1) == PRESETS["gpt2"].problem


def test_the_cache_is_that_of_the_papers():
    """Llama-3-8B: 2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072 bytes a token; GQA saves four times."""
    llama = MODELS[FIRST_MODEL]
    assert llama.cache_bytes(1) == 131_072
    assert llama.cache_bytes(1000, batch=2, kv_heads=llama.q_heads) == 8000 * 131_072
    gemma = MODELS["gemma3_27b"]
    of_token = 2 * 16 * 128 * 2
    assert gemma.cache_bytes(100_000) == of_token * (10 * 100_000 + 52 * 1024)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((8192, "training"), "phase='training' .* prefill, decode"),
        ((8192, "prefill", "window"), "kind='window' .* Llama-3-8B has layers of full"),
        ((0,), "length=0"),
        ((1 << 21,), "length=2097152"),
        ((8, "prefill", "full", 0), "batch=0"),
    ],
)
def test_a_problem_that_there_is_not_is_refused_by_name(arguments, words):
    with pytest.raises(InvalidProblem, match=words):
        MODELS[FIRST_MODEL].problem(*arguments)


def test_costs_add_up_over_the_kinds_of_layers():
    model, measured = MODELS["gemma2_9b"], [measurement(8192)]
    naive, ours = (costs(model, 8192, 2, "prefill", peer, measured) for peer in (NAIVE, OURS))
    full, window = (model.problem(8192, kind=kind, batch=2) for kind in ("full", "window"))
    assert ours.flops == 21 * (attention_flops(full, "forward") + attention_flops(window, "forward"))
    assert naive.flops == 2 * 42 * attention_flops(full, "forward")
    assert naive.layer_memory_bytes == 2 * 2 * 16 * 8192 * 8192 * 2
    assert ours.layer_memory_bytes == 2 * 16 * 8192 * (256 * 2 + 4)
    assert [layers for layers, _ in ours.times] == [21, 21]
    assert ours.ms == pytest.approx(21 * sum(each.amount for _, each in ours.times))
    assert layer_memory(model, 8192, 1, OURS, "decode") == 16 * (256 * 2 + 4)


def test_without_a_measurement_of_each_kind_there_is_no_time():
    assert costs(MODELS[FIRST_MODEL], 8192, 1, "decode", OURS, [measurement(8192)]).ms is None
