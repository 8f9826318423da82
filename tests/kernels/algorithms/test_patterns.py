"""Masks and scores beyond a band: right by the rule, with the band's bits, and played as planned."""

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS, dispatch, run_traced, runner_of
from kernels.device.runtime import DEVICE
from kernels.oracle.rule import compare_output
from kernels.primitives.launch import TileConfig
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.problem.pattern import SKIPPED, plan_of
from kernels.trace.sample import Sample
from tests.kernels.helpers import assert_forward_right, assert_gradients_right, run_forward, tiny

SIZES = {"q_heads": 2, "kv_heads": 1}
CASES = {
    "documents": tiny(40, 70, mask="documents", documents="20 1 30 0 13", **SIZES),
    "numbers of documents": tiny(
        40,
        50,
        mask="expression",
        expression="doc(k) < doc(q) or doc(k) == doc(q) and k > q - 9",
        documents="20 1 0 17 2",
        **SIZES,
    ),
    "prefix": tiny(40, 40, mask="prefix", prefix=20, dtype="bfloat16", **SIZES),
    "sinks": tiny(60, 60, mask="sinks", window_left=9, prefix=3, sink_logit=1, **SIZES),
    "by head": tiny(
        40, 50, mask="expression", expression="k <= q and (q - k) % 3 != 1 and (h == 0 or k > 30)", **SIZES
    ),
    "no keys": tiny(
        40, 33, mask="expression", expression="k < q - 5 or abs(q - k) // 4 == 2", dtype="float32", **SIZES
    ),
    "softcap": tiny(40, 50, mask="causal", softcap=2, **SIZES),
    "alibi": tiny(40, 50, mask="window", window_left=40, alibi=1, sink_logit=1, **SIZES),
    "all": tiny(
        40, 50, mask="documents", documents="20 20", softcap=1, alibi=1, sink_logit=1, head_dim=40, **SIZES
    ),
}
of_each = pytest.mark.parametrize("problem", CASES.values(), ids=CASES)


@of_each
def test_forward_and_gradients_are_right(problem, poisoned):
    assert_forward_right(problem, *run_forward(problem))
    tensors = (*make_inputs(problem, DEVICE), make_d_output(problem, DEVICE))
    assert_gradients_right(problem, runner_of("flash2").gradients(problem, *tensors))


@pytest.mark.parametrize("name", ["sinks", "by head", "no keys", "all"])
def test_standard_attention_takes_them_too(name):
    problem = CASES[name]
    inputs = make_inputs(problem, DEVICE)
    assert compare_output(problem, runner_of("standard").forward(problem, *inputs)[0], inputs).report.passes
    trace = run_traced(problem, "standard")
    assert compare_output(problem, torch.from_numpy(trace.output), inputs).report.passes


@pytest.mark.parametrize("softcap", [1, 50, 1000])
def test_a_softcap_keeps_the_precision_of_float32(softcap):
    problem = tiny(24, 24, softcap=softcap, dtype="float32")
    assert_forward_right(problem, *run_forward(problem))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@of_each
def test_forward_and_gradients_are_right_on_a_gpu(problem, head_dim, dtype):
    tiles = {"block_m": 64, "block_n": 32 if head_dim == 256 else 64}
    if "documents" in problem.mask:
        tiles["documents"] = "100 1 64 130"
    large = problem.with_(head_dim=head_dim, dtype=dtype, q_len=300, kv_len=330, prefix=70, **tiles)
    assert_forward_right(large, *run_forward(large))
    tensors = (*make_inputs(large, DEVICE), make_d_output(large, DEVICE))
    assert_gradients_right(large, runner_of("flash2").gradients(large, *tensors))


@pytest.mark.parametrize(("mask", "words"), [("causal", "k <= q"), ("window", "-2 <= q - k <= 9")])
def test_a_plan_gives_the_bits_of_the_band(mask, words):
    band = tiny(40, 50, mask=mask, window_left=9, window_right=2, **SIZES)
    same = band.with_(mask="expression", expression=words)
    assert all(map(torch.equal, run_forward(band), run_forward(same)))
    tensors = (*make_inputs(band, DEVICE), make_d_output(band, DEVICE))
    gradients = (runner_of("flash2").gradients(problem, *tensors) for problem in (band, same))
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("sinks", "flash2"), ("no keys", "flash2"), ("by head", "backward"), ("documents", "backward")],
)
def test_a_trace_visits_the_tiles_of_the_plan_and_its_bytes_are_those_of_the_formula(name, algorithm):
    problem, entry = CASES[name], ALGORITHMS[algorithm]
    trace = run_traced(problem, algorithm)
    plan = plan_of(problem.pattern, problem.block_m, problem.block_n)
    for number, kernel in enumerate(entry.kernels):
        own = (trace.kernel == number) & (trace.kv_tile >= 0) & (trace.q_tile >= 0)
        for head in range(problem.heads) if kernel.step else ():
            steps = own & (trace.batch_head == head)
            places = np.stack([trace.q_tile[steps], trace.kv_tile[steps]], axis=1)
            kinds = plan.kinds[head % len(plan.kinds)]
            assert sorted(places.tolist()) == np.argwhere(kinds != SKIPPED).tolist()
    assert (trace.bytes_read + trace.bytes_written).sum() == entry.requested_bytes(problem)


def test_the_sink_is_a_key_that_was_seen_first():
    problem = CASES["sinks"]
    trace = run_traced(problem, "flash2")
    first = np.flatnonzero((trace.q_tile == 0) & (trace.batch_head == 1))[0]
    rows = slice(0, 10)
    m, l, alpha = (field[first, rows] for field in (trace.row_max, trace.row_sum, trace.alpha))
    np.testing.assert_allclose(alpha, np.exp(problem.pattern.sinks[1] - m), rtol=1e-5)
    assert (l > alpha).all()


def test_a_sample_of_query_tiles_has_the_tiles_of_the_whole():
    problem = tiny(70, 70, mask="documents", documents="20 30 20", softcap=3, q_heads=2, kv_heads=2)
    whole = run_traced(problem, "flash2")
    part = run_traced(problem, "flash2", Sample((0,), (1, 3)))
    for tile in (1, 3):
        seen = whole.kv_tile[(whole.batch_head == 0) & (whole.q_tile == tile)]
        assert part.kv_tile[part.q_tile == tile].tolist() == seen.tolist()
    for differs, heads in (
        (problem.with_(alibi=1), (0,)),
        (problem.with_(sink_logit=1, batch=2), (0, 1, 2, 3)),
    ):
        with pytest.raises(InvalidProblem, match="sample"):
            run_traced(differs, "flash2", Sample(heads, (1, 3)))


@pytest.mark.parametrize("name", [name for name, entry in ALGORITHMS.items() if not entry.takes_patterns])
@pytest.mark.parametrize(("change", "field"), [({"mask": "prefix"}, "mask"), ({"softcap": 5}, "softcap")])
def test_other_algorithms_refuse_a_pattern_by_its_field(name, change, field):
    refused = ALGORITHMS[name].refusal(AttentionProblem(**change))
    assert refused is not None
    assert refused.field == field


@pytest.mark.parametrize(
    ("change", "is_short"),
    [
        ({"mask": "window", "window_left": 1023, "sink_logit": 1}, True),
        ({"mask": "documents", "documents": "4096 4096"}, False),
        ({"mask": "documents", "documents": "1024 300 1748 2048 1000 2072"}, True),
        ({"mask": "causal", "alibi": 1}, False),
    ],
)
def test_queries_that_see_few_keys_get_the_tiles_of_a_short_sequence(change, is_short, monkeypatch):
    tiles = {8192: TileConfig(128, 64), 2048: TileConfig(64, 64)}
    monkeypatch.setattr(dispatch, "choose_config", lambda *shape: tiles[shape[-1]])
    pattern = AttentionProblem(q_len=8192, kv_len=8192, **change).pattern
    chosen = dispatch.tiles_of_pattern(torch.empty(1, 1, 8192, 64, device="meta"), pattern)
    assert chosen == tiles[2048 if is_short else 8192]
