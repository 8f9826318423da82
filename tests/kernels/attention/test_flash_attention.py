"""flash_attention: the contract of the public call, autograd, torch.compile, autocast."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from kernels import flash_attention
from kernels.algorithms.dispatch import PLAIN, SWEEP, package_for
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.oracle.naive import visible_mask
from kernels.problem import Band


def draw(*shape, dtype=torch.float32, requires_grad=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(DEVICE, dtype).requires_grad_(requires_grad)


@pytest.fixture
def qkv():
    return [draw(2, 4, 33, 32, seed=seed) for seed in range(3)]


def in_float64(tensors):
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def close(got, expected, rtol=2e-5, atol=2e-5):
    torch.testing.assert_close(got.double(), expected.double(), rtol=rtol, atol=atol)


def test_it_is_scaled_dot_product_attention(qkv):
    close(flash_attention(*qkv), F.scaled_dot_product_attention(*in_float64(qkv)))
    close(
        flash_attention(*qkv, is_causal=True),
        F.scaled_dot_product_attention(*in_float64(qkv), is_causal=True),
    )
    close(flash_attention(*qkv, scale=0.3), F.scaled_dot_product_attention(*in_float64(qkv), scale=0.3))


def test_causal_is_aligned_to_the_bottom_right():
    query, key, value = draw(1, 2, 10, 16), draw(1, 2, 25, 16, seed=1), draw(1, 2, 25, 16, seed=2)
    expected = F.scaled_dot_product_attention(
        *in_float64((query, key, value)), attn_mask=causal_lower_right(10, 25)
    )
    close(flash_attention(query, key, value, is_causal=True), expected)


@pytest.mark.parametrize("window", [(5, 0), (0, 7), (3, 3), (None, 2), (4, None), (None, None)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_windows(window, is_causal, qkv):
    left, right = window
    visible = visible_mask(Band.of(33, 33, left, 0 if is_causal else right), device=DEVICE)
    close(
        flash_attention(*qkv, window=window, is_causal=is_causal),
        F.scaled_dot_product_attention(*in_float64(qkv), attn_mask=visible),
    )


@pytest.mark.parametrize("scale", [-0.7, 0.0])
def test_any_finite_scale(scale, qkv):
    expected, _ = attention_by_rows(*qkv, scale=scale, band=Band.of(33, 33, right=0), dtype=torch.float64)
    close(flash_attention(*qkv, scale=scale, is_causal=True), expected)


@pytest.mark.parametrize("q_len", [1, 33], ids=["decoding", "prefill"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_heads(kv_heads, q_len):
    query, key, value = (
        draw(2, 4, q_len, 16),
        draw(2, kv_heads, 70, 16, seed=1),
        draw(2, kv_heads, 70, 16, seed=2),
    )
    expected = F.scaled_dot_product_attention(*in_float64((query, key, value)), enable_gqa=True)
    close(flash_attention(query, key, value, enable_gqa=True), expected)


def test_lse_is_returned_and_differentiated(qkv):
    out, lse = flash_attention(*qkv, is_causal=True, return_lse=True)
    exact = in_float64(qkv)
    scores = (exact[0] @ exact[1].transpose(-1, -2) / 32**0.5).masked_fill(
        ~visible_mask(Band.of(33, 33, right=0), device=DEVICE), float("-inf")
    )
    close(lse, torch.logsumexp(scores, dim=-1))
    for loss, exact_loss in (
        (lse.square().sum(), torch.logsumexp(scores, dim=-1).square().sum()),
        (
            out.square().sum() + lse.sum(),
            (torch.softmax(scores, dim=-1) @ exact[2]).square().sum() + torch.logsumexp(scores, dim=-1).sum(),
        ),
    ):
        got = torch.autograd.grad(loss, qkv, retain_graph=True)
        expected = torch.autograd.grad(exact_loss, exact, retain_graph=True, allow_unused=True)
        for a, b in zip(got, expected, strict=True):
            close(a, torch.zeros_like(a) if b is None else b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["causal", "grouped", "window", "decoding", "expanded"])
def test_gradients_against_autograd_in_float64(case):
    kv_heads, q_len = (2 if case in ("grouped", "decoding") else 4), (3 if case == "decoding" else 40)
    tensors = [draw(2, 4, q_len, 16), draw(2, kv_heads, 50, 16, seed=1), draw(2, kv_heads, 50, 16, seed=2)]
    options = {"is_causal": case == "causal", "window": (9, 3) if case == "window" else None}
    left, right = (9, 3) if case == "window" else (None, 0 if case == "causal" else None)
    visible = visible_mask(Band.of(q_len, 50, left, right), device=DEVICE)
    out = flash_attention(*tensors, enable_gqa=True, **options)
    exact = in_float64(tensors)
    expected = F.scaled_dot_product_attention(*exact, attn_mask=visible, enable_gqa=True)
    weight = torch.ones_like(out) if case == "expanded" else draw(*out.shape, requires_grad=False, seed=9)
    got = torch.autograd.grad(out, tensors, weight[:, :, :1].expand_as(out) if case == "expanded" else weight)
    for a, b in zip(got, torch.autograd.grad(expected, exact, weight.double()), strict=True):
        close(a, b, rtol=1e-4, atol=1e-4)


def test_a_second_derivative_is_refused(qkv):
    (gradient,) = torch.autograd.grad(flash_attention(*qkv).sum(), qkv[0], create_graph=True)
    with pytest.raises(NotImplementedError, match="flash_attention has first derivatives only"):
        gradient.sum().backward()


def test_layouts_of_models_are_taken_as_they_are():
    packed = draw(2, 33, 3, 4, 32)  # (batch, length, q k v, heads, head_dim), as a fused projection gives it
    query, key, value = packed.unbind(dim=2)
    out = flash_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True)
    expected = F.scaled_dot_product_attention(
        *(tensor.transpose(1, 2).double() for tensor in (query, key, value)), is_causal=True
    )
    close(out, expected)


def test_compiles_without_a_graph_break(qkv):
    def model(query, key, value):
        return flash_attention(query * 2, key, value, is_causal=True).relu()

    backend = "inductor" if DEVICE == "cuda" else "aot_eager"
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    close(compiled(*qkv), model(*qkv))
    got = torch.autograd.grad(compiled(*qkv).sum(), qkv)
    for a, b in zip(got, torch.autograd.grad(model(*qkv).sum(), qkv), strict=True):
        close(a, b)


def test_the_operators_keep_torchs_contract(qkv):
    torch.library.opcheck(torch.ops.flash_attention.forward.default, (*qkv, 66, 0, 0.2))
    out, lse = torch.ops.flash_attention.forward(*(tensor.detach() for tensor in qkv), 66, 0, 0.2)
    saved = [tensor.detach() for tensor in qkv]
    torch.library.opcheck(
        torch.ops.flash_attention.backward.default,
        (*saved, out, lse, torch.ones_like(out), None, 66, 0, 0.2),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_autocast_casts_the_inputs(qkv):
    with torch.autocast(DEVICE, torch.bfloat16):
        out = flash_attention(*qkv)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert qkv[0].grad.dtype == torch.float32


def test_nothing_to_do_gives_nothing():
    query, key = draw(2, 3, 5, 16), draw(2, 3, 0, 16)
    out, lse = flash_attention(query, key, key, return_lse=True)
    assert not out.any()
    assert (lse == float("-inf")).all()
    assert flash_attention(query[:, :, :0], query, query).shape == (2, 3, 0, 16)
    out.sum().backward()
    assert not query.grad.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda q, k, v: (q[0], k, v),
            r"query has shape \(4, 33, 32\); expected \(batch, heads, length, head_dim\)",
        ),
        (
            lambda q, k, v: (q, k.half(), v),
            r"key has dtype torch.float16; expected float16, bfloat16 or float32, the same for",
        ),
        (lambda q, k, v: (q.double(), k.double(), v.double()), r"query has dtype torch.float64; expected"),
        (
            lambda q, k, v: (q, k[:, :2], v[:, :2]),
            r"key has 2 heads; expected 4, as query has; with enable_gqa=True also a divisor",
        ),
        (
            lambda q, k, v: (q, k[..., :16], v),
            r"key has shape \(2, 4, 33, 16\) and value \(2, 4, 33, 32\); expected \(batch 2, heads, length",
        ),
        (lambda q, k, v: (q[..., :8], k[..., :8], v[..., :8]), r"query has head_dim 8; expected 16 to 256"),
    ],
)
def test_a_refusal_says_what_was_given_and_what_is_accepted(change, message, qkv):
    with pytest.raises(ValueError, match=message):
        flash_attention(*change(*qkv))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"window": (-1, 0)}, "window left=-1"), ({"scale": float("nan")}, "scale=nan is not accepted")],
)
def test_a_refused_option_is_named(options, message, qkv):
    with pytest.raises(ValueError, match=message):
        flash_attention(*qkv, **options)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("head_dim", [16, 32, 64, 128, 256])
def test_250_deterministic_repeats_are_bitwise_equal(head_dim, is_causal, dtype, poisoned):
    tensors = [draw(2, 4, 500, head_dim, dtype=dtype, seed=seed) for seed in range(3)]
    weight = draw(2, 4, 500, head_dim, dtype=dtype, requires_grad=False, seed=3)

    def once():
        out = flash_attention(*tensors, is_causal=is_causal)
        return out, *torch.autograd.grad(out, tensors, weight)

    first = once()
    for _ in range(250):
        assert all(torch.equal(a, b) for a, b in zip(first, once(), strict=True))


@pytest.mark.gpu
def test_inputs_beyond_two_to_the_31_elements():
    batch, heads, length, d = 3, 64, 90000, 128
    assert batch * heads * length * d > 2**31
    query, key, value = (
        torch.empty((batch, heads, length, d), dtype=torch.float16, device="cuda").normal_() for _ in range(3)
    )
    out = flash_attention(query, key, value, window=(64, 0))
    batch_head, last_rows, their_keys = (2, 63), slice(length - 200, length), slice(length - 400, length)
    exact, _ = attention_by_rows(
        query[batch_head][None, None, last_rows],
        key[batch_head][None, None, their_keys],
        value[batch_head][None, None, their_keys],
        scale=d**-0.5,
        band=Band.of(200, 400, 64, 0),
        dtype=torch.float64,
    )
    torch.testing.assert_close(out[batch_head][last_rows].double(), exact[0, 0], rtol=2e-3, atol=2e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 256])
def test_extra_memory_is_the_outputs_and_the_row_sums(head_dim):
    tensors = [draw(4, 16, 4096, head_dim, dtype=torch.float16, seed=seed) for seed in range(3)]
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out = flash_attention(*tensors)
    rows = 4 * 16 * 4096 * 4
    assert torch.cuda.max_memory_allocated() - before <= out.nbytes + rows + 4096
    torch.cuda.reset_peak_memory_stats()
    weight = torch.ones_like(out)
    before = torch.cuda.memory_allocated()
    torch.autograd.grad(out, tensors, weight)
    allowed = 3 * out.nbytes + rows + 4096
    package = package_for(*tensors)
    if package != PLAIN:
        allowed += rows  # lse as the kernels for Hopper read it
    if package == SWEEP:
        allowed += 2 * out.nbytes  # dQ in float32
    assert torch.cuda.max_memory_allocated() - before <= allowed
