"""`flash_attention` with masks and scores beyond a band: against torch in float64, and what it refuses."""

import pytest
import torch

from kernels.attention.flash_attention import flash_attention
from kernels.device.runtime import DEVICE

LENGTHS = {"q_len": 40, "kv_len": 50}


def tensors(seed=0, heads=(4, 2)):
    draw = torch.Generator().manual_seed(seed)
    shapes = [(2, heads[0], 40, 16), (2, heads[1], 50, 16), (2, heads[1], 50, 16)]
    return [torch.randn(shape, generator=draw).to(DEVICE).requires_grad_() for shape in shapes]


def expected(query, key, value, bias, softcap=0.0, sinks=None):
    """Output of attention in float64, `bias` (40, 50) or by head, with -inf for what is hidden."""
    key, value = (tensor.repeat_interleave(query.shape[1] // key.shape[1], 1) for tensor in (key, value))
    scores = query @ key.mT / 4
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + bias
    if sinks is not None:
        column = sinks[None, :, None, None].expand(2, -1, 40, 1)
        return torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1] @ value
    return torch.softmax(scores, -1).nan_to_num() @ value


def hidden(visible):
    return torch.zeros(40, 50, dtype=torch.float64, device=DEVICE).masked_fill_(~visible, float("-inf"))


def positions():
    return torch.arange(10, 50, device=DEVICE)[:, None], torch.arange(50, device=DEVICE)[None, :]


def documents_of(*lengths):
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(DEVICE)


def cases():
    q, k = positions()
    doc = documents_of(20, 1, 29)
    own = doc[10:, None] == doc[None, :]
    distance = (q - k).abs().double()
    slopes = torch.tensor([0.5, 0.25, 0.1, 0.0], device=DEVICE)
    return {
        "causal documents": ({"documents": [20, 1, 29], "is_causal": True}, {"bias": hidden(own & (k <= q))}),
        "window and mask": (
            {"mask": "k % 2 == 0", "window": (7, 1)},
            {"bias": hidden((k % 2 == 0) & (k >= q - 7) & (k <= q + 1))},
        ),
        "softcap": ({"softcap": 0.7}, {"bias": hidden(k >= 0), "softcap": 0.7}),
        "alibi": ({"alibi_slopes": slopes}, {"bias": -slopes.double()[:, None, None] * distance}),
    }


@pytest.mark.parametrize("name", cases())
def test_output_and_gradients_agree_with_torch_in_float64(name):
    options, reference = cases()[name]
    given = tensors()
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    out, wanted = flash_attention(*given, enable_gqa=True, **options), expected(*exact, **reference)
    torch.testing.assert_close(out.double(), wanted, rtol=0, atol=3e-6)
    gradients = torch.autograd.grad(out.square().sum(), given)
    exactly = torch.autograd.grad(wanted.square().sum(), exact)
    for got, right in zip(gradients, exactly, strict=True):
        torch.testing.assert_close(got.double(), right, rtol=0, atol=2e-5)


def test_sinks_take_part_in_the_row_sum_and_have_a_gradient():
    given, sinks = tensors(), torch.tensor([2.0, -1.0, 0.0, 4.0], device=DEVICE, requires_grad=True)
    exact = [tensor.detach().double().requires_grad_() for tensor in (*given, sinks)]
    bias = hidden(torch.ones(40, 50, dtype=torch.bool, device=DEVICE))
    out = flash_attention(*given, enable_gqa=True, sinks=sinks)
    wanted = expected(*exact[:3], bias, sinks=exact[3])
    torch.testing.assert_close(out.double(), wanted, rtol=0, atol=3e-6)
    gradients = torch.autograd.grad(out.square().sum(), (*given, sinks))
    for got, right in zip(gradients, torch.autograd.grad(wanted.square().sum(), exact), strict=True):
        torch.testing.assert_close(got.double(), right, rtol=0, atol=2e-5)


def test_lse_counts_the_sink_and_is_differentiable():
    query, key, value = tensors(heads=(2, 2))
    sinks = torch.tensor([1.0, 3.0], device=DEVICE)
    _, lse = flash_attention(query, key, value, sinks=sinks, return_lse=True)
    scores = query.double() @ key.double().mT / 4
    wanted = torch.logaddexp(torch.logsumexp(scores, -1), sinks.double()[:, None])
    torch.testing.assert_close(lse.double(), wanted, rtol=0, atol=3e-6)
    (got,) = torch.autograd.grad(lse.sum(), query)
    (right,) = torch.autograd.grad(wanted.sum(), query)
    torch.testing.assert_close(got, right, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask": "k <= q and os"}, "column 12"),
        ({"documents": [30, 21]}, "at most 50 in all"),
        ({"documents": [1.5, 2]}, "whole numbers"),
        ({"documents": [3, 5], "mask": "k <= q"}, "asks for none"),
        ({"mask": torch.ones(40, 50, dtype=torch.bool)}, "as text"),
        ({"softcap": 1e9}, "softcap"),
        ({"sinks": torch.ones(2, dtype=torch.bool)}, "floats"),
        ({"alibi_slopes": torch.ones(2, requires_grad=True)}, "detached"),
        ({"softcap": float("nan")}, "softcap"),
        ({"sinks": torch.zeros(3)}, r"\(2,\)"),
        ({"alibi_slopes": [0.5, 0.5]}, "alibi_slopes"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_accepted(options, words):
    with pytest.raises(ValueError, match=words):
        flash_attention(*tensors(heads=(2, 2)), **options)


def test_a_row_without_a_key_gives_its_sink_as_lse_whether_a_band_or_a_plan_hides_them():
    query, key, value = tensors(heads=(2, 2))
    sinks = torch.tensor([0.5, -1.0], device=DEVICE, requires_grad=True)
    short = (key[:, :, :20].detach(), value[:, :, :20].detach())
    for options in ({"is_causal": True}, {"mask": "k <= q"}):
        out, lse = flash_attention(query, *short, sinks=sinks, return_lse=True, **options)
        assert torch.equal(lse[:, :, :20], sinks[:, None].expand(2, 2, 20))
        assert not out[:, :, :20].any()
        (gradient,) = torch.autograd.grad(out.square().sum(), sinks)
        assert torch.isfinite(gradient).all()


def test_a_document_mask_without_lengths_and_more_queries_than_keys_is_refused():
    query, key, value = tensors(heads=(2, 2))
    with pytest.raises(ValueError, match="at most 20 queries"):
        flash_attention(query, key[:, :, :20], value[:, :, :20], mask="doc(q) == doc(k)")


def test_empty_and_meta_tensors_give_results_of_their_shape():
    query, key, value = tensors(heads=(2, 2))
    assert flash_attention(query[:, :, :0], key, value, mask="k <= q").shape == (2, 2, 0, 16)
    assert not flash_attention(query, key[:, :, :0], value[:, :, :0], softcap=3.0).any()
    meta = [tensor.to("meta") for tensor in (query, key, value)]
    assert flash_attention(*meta, mask="k <= q").is_meta
