"""Replay: a repeated call gives what a first call gives, for every difference that a launch depends on."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import kernels.attention.flash_attention as front
from kernels import flash_attention
from kernels.attention import operators, patterned
from kernels.device.runtime import DEVICE
from kernels.primitives import replay
from kernels.primitives.replay import is_traced, repeat, signature_of
from tests.kernels.attention.conftest import draw
from tests.kernels.helpers import forget

KNOWN = (replay._repetitions, front._accepted)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    """Nothing is known, and a first call is written down."""
    monkeypatch.setattr(replay, "WRITTEN_DOWN_AT", 1)
    forget()
    yield
    forget()


@pytest.fixture
def runs(monkeypatch):
    """Names of the launchers that ran in Python."""
    names = []
    for name in ("launch_forward", "launch_backward"):
        original = getattr(operators, name)

        def counted(*arguments, name=name, original=original):
            names.append(name)
            return original(*arguments)

        monkeypatch.setattr(operators, name, counted)
    monkeypatch.setattr(front, "launch_forward", operators.launch_forward)
    return names


def qkv(*shape, **options):
    return [draw(*shape, seed=seed, **options) for seed in range(3)]


def first_call(*tensors, **options):
    """The result of a call of which nothing is known."""
    before = [dict(known) for known in KNOWN]
    forget()
    result = flash_attention(*tensors, **options)
    for known, kept in zip(KNOWN, before, strict=True):
        known.update(kept)
    return result


@pytest.mark.parametrize("written_down_at", [1, 3])
def test_what_is_written_down_runs_no_launcher_and_reads_its_own_tensors(written_down_at, runs, monkeypatch):
    monkeypatch.setattr(replay, "WRITTEN_DOWN_AT", written_down_at)
    for _ in range(written_down_at):
        flash_attention(*qkv(1, 2, 20, 16))
    others = [tensor + 1 for tensor in qkv(1, 2, 20, 16)]
    got = flash_attention(*others)
    assert runs == ["launch_forward"] * written_down_at
    assert torch.equal(got, first_call(*others))
    assert len(runs) == written_down_at + 1


@pytest.mark.parametrize(
    "options",
    [
        {"documents": [7, 13], "mask": "k <= q and doc(q) == doc(k)", "softcap": 2.0},
        {"is_causal": True},
    ],
)
def test_a_call_with_a_pattern_is_written_down_too(options, monkeypatch):
    """The lists of its plan are there before: made by the first call, and held."""
    monkeypatch.setattr(replay, "WRITTEN_DOWN_AT", 2)
    ran = []
    for name in ("_launch_forward", "_launch_backward"):
        launcher = getattr(patterned, name)
        counted = lambda *given, launcher=launcher: (ran.append(1), launcher(*given))[1]  # noqa: E731
        monkeypatch.setattr(patterned, name, counted)

    def call(seed):
        query, key, value = (draw(1, 2, 20, 16, seed=seed + place).requires_grad_() for place in range(3))
        sinks, slopes = (draw(2, seed=seed + place).abs().requires_grad_(place == 3) for place in (3, 4))
        out = flash_attention(query, key, value, sinks=sinks, alibi_slopes=slopes, **options)
        return out, *torch.autograd.grad(out.sum(), (query, key, value, sinks))

    got = [call(10 * number) for number in range(4)]
    assert len(ran) == 4  # two calls, forward and backward
    for number, tensors in enumerate(got):
        forget()
        assert all(map(torch.equal, tensors, call(10 * number)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("q_len", [1, 40], ids=["decoding", "prefill"])
def test_addresses_that_are_aligned_to_an_element_alone(q_len, dtype):
    for _ in range(2):
        tensors = [moved(tensor) for tensor in qkv(1, 2, q_len, 16, dtype=dtype)]
        expected = flash_attention(*(tensor.clone() for tensor in tensors))
        torch.testing.assert_close(flash_attention(*tensors), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("q_len", [1, 40], ids=["decoding", "prefill"])
def test_one_tensor_in_three_places_does_not_stand_for_three(q_len):
    query, key, value = qkv(1, 2, q_len, 16)
    flash_attention(query, query, query)
    assert torch.equal(flash_attention(query, key, value), first_call(query, key, value))


def moved(tensor):
    """The same tensor at an address that is not a multiple of 16 bytes."""
    return torch.cat([tensor.flatten()[:1], tensor.flatten()])[1:].view(tensor.shape)


def heads_last(tensor):
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


OTHER_TENSORS = {
    "dtype": lambda q, k, v: (q.half(), k.half(), v.half()),
    "length": lambda q, k, v: (q[:, :, :17], k[:, :, :17], v[:, :, :17]),
    "strides": lambda q, k, v: (heads_last(q), heads_last(k), heads_last(v)),
    "strides of value": lambda q, k, v: (q, k, heads_last(v)),
    "alignment": lambda q, k, v: (moved(q), moved(k), moved(v)),
    "expanded": lambda *qkv: tuple(tensor[:1].expand(2, 2, 18, 16) for tensor in qkv),
    "heads": lambda q, k, v: (q, k[:, :1], v[:, :1]),
}
OPTIONS = {
    "heads": ({}, {"enable_gqa": True}),
    "mask": ({}, {"is_causal": True}),
    "window": ({"window": (3, 0)}, {"window": (2, 0)}),
    "scale": ({}, {"scale": 0.3}),
    "sign of the scale": ({"scale": 0.3}, {"scale": -0.3}),
    "alignment of the diagonal": ({"is_causal": True}, {"is_causal": True, "causal_alignment": "top_left"}),
}


@pytest.mark.parametrize("kind", sorted({*OTHER_TENSORS, *OPTIONS}))
def test_what_differs_is_not_taken_for_the_same(kind):
    tensors, (options, other_options) = qkv(2, 2, 18, 16), OPTIONS.get(kind, ({}, {}))
    if kind == "alignment of the diagonal":
        tensors = [tensors[0], *(tensor[:, :, :9] for tensor in tensors[1:])]
    others = OTHER_TENSORS.get(kind, lambda *same: same)(*tensors)
    before, after = first_call(*tensors, **options), first_call(*others, **other_options)
    for _ in range(2):
        assert torch.equal(flash_attention(*tensors, **options), before)
        assert torch.equal(flash_attention(*others, **other_options), after)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"window": (True, 0)}, "window"), ({"window": 1}, "window"), ({"scale": float("nan")}, "scale=nan")],
)
def test_a_refusal_is_the_same_after_a_call_that_was_accepted(options, words):
    tensors = qkv(1, 2, 20, 16)
    flash_attention(*tensors, window=(1, 0))
    flash_attention(*tensors, scale=1.0)
    with pytest.raises(ValueError, match=words):
        flash_attention(*tensors, **options)


def test_requires_grad_counts_at_every_call(runs):
    query, key, value = qkv(1, 2, 20, 16)
    assert not flash_attention(query, key, value).requires_grad
    key.requires_grad_()
    (gradient,) = torch.autograd.grad(flash_attention(query, key, value).sum(), key)
    assert gradient.any()
    with torch.no_grad():
        assert not flash_attention(query, key, value).requires_grad
    with torch.inference_mode():
        assert flash_attention(query, key, value).is_inference()
    assert runs == ["launch_forward", "launch_backward"]


def test_autocast_and_deterministic_mode_count_at_every_call():
    tensors = qkv(1, 2, 20, 16)
    out, ordinary = flash_attention(*tensors), signature_of(tensors)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert flash_attention(*tensors).dtype == torch.bfloat16
    torch.use_deterministic_algorithms(True)
    try:
        assert signature_of(tensors) != ordinary
        assert torch.equal(flash_attention(*tensors), out)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(flash_attention(*tensors), out)


def test_gradients_that_saved_tensors_came_back_with_other_strides():
    tensors = [tensor.requires_grad_() for tensor in qkv(1, 2, 24, 16)]
    weight = draw(1, 2, 24, 16, seed=7)
    expected = torch.autograd.grad(flash_attention(*tensors), tensors, weight)

    def columns_first(tensor):
        return tensor.mT.contiguous().mT if tensor.dim() == 4 else tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, columns_first):
        out = flash_attention(*tensors)
    torch.testing.assert_close(torch.autograd.grad(out, tensors, weight), expected)


def test_a_negation_that_is_pending_is_done_first():
    tensors = [torch.complex(tensor, tensor).conj().imag for tensor in qkv(1, 2, 20, 16)]
    assert all(tensor.is_neg() for tensor in tensors)
    assert signature_of(tensors) is None
    expected = flash_attention(*(tensor.resolve_neg() for tensor in tensors))
    torch.testing.assert_close(flash_attention(*tensors), expected)


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """Writes down the operators that are called."""

    names = ()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names += (func.name(),)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_one_operator():
    tensors = qkv(1, 2, 20, 16)
    flash_attention(*tensors)
    with Seen() as seen:
        assert is_traced()
        flash_attention(*tensors)
    assert seen.names == ("flash_attention::forward",)


def test_no_tensor_of_a_call_is_kept_alive():
    tensors = [tensor.requires_grad_() for tensor in qkv(1, 2, 40, 16)]
    out = flash_attention(*tensors)
    torch.autograd.grad(out.sum(), tensors)
    references = [weakref.ref(tensor) for tensor in (*tensors, out)]
    del tensors, out
    gc.collect()
    assert all(reference() is None for reference in references)


@pytest.mark.gpu
def test_threads_do_not_mix_their_addresses():
    calls = [[tensor + number for tensor in qkv(1, 2, 20, 16)] for number in range(4)]
    expected = [flash_attention(*tensors) for tensors in calls]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda tensors: [flash_attention(*tensors) for _ in range(3)], calls))
    for got, exact in zip(results, expected, strict=True):
        assert all(torch.equal(tensor, exact) for tensor in got)


@pytest.mark.parametrize("kind", ["a constant", "an operation", "a change in place"])
def test_a_launcher_that_does_more_than_allocate_and_launch_runs_every_time(kind):
    constant, runs = draw(3, 4, seed=9), []

    def launcher(tensor):
        runs.append(1)
        if kind == "a constant":
            return (constant,)
        return (tensor + 1,) if kind == "an operation" else (torch.empty_like(tensor).fill_(3.0),)

    for tensor in qkv(3, 4):
        assert torch.equal(repeat(launcher, (tensor,), ())[0], launcher(tensor)[0])
    assert len(runs) == 6


def test_zeros_are_zeros_at_every_call():
    runs = []

    def launcher(tensor):
        runs.append(1)
        return (torch.zeros(64, device=tensor.device),)

    for tensor in qkv(3, 4) * 2:
        (zeros,) = repeat(launcher, (tensor,), ())
        assert not zeros.any()
        zeros.fill_(1.0)
        del zeros  # a repetition may get the same memory
    assert len(runs) == 1


def test_a_profiler_that_watches_launches_sees_a_plain_launch(runs, monkeypatch):
    for _ in range(2):
        flash_attention(*qkv(1, 2, 20, 16))
    assert len(runs) == 1
    monkeypatch.setattr(replay, "is_watched", lambda: True)
    flash_attention(*qkv(1, 2, 20, 16))
    assert len(runs) == 2


def test_as_many_signatures_are_kept_as_are_said(monkeypatch):
    monkeypatch.setattr(replay, "MOST_SIGNATURES", 3)
    query, key, value = qkv(1, 1, 17, 16)
    for number in range(8):
        flash_attention(query, key, value, scale=0.1 + number)
    assert all(1 <= len(cache) <= 3 for cache in KNOWN)
