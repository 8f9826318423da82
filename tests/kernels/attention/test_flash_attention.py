"""flash_attention: the contract of the public call, autograd, torch.compile, autocast."""

import pytest
import torch
import torch.nn.functional as F

from kernels import flash_attention
from kernels.algorithms.dispatch import PLAIN, SWEEP, package_for
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.oracle.naive import visible_mask
from kernels.problem import Band
from tests.kernels.attention.conftest import draw


def in_float64(tensors):
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def close(got, expected, rtol=2e-5, atol=2e-5):
    """Of a tensor, or of several."""
    torch.testing.assert_close(got, expected, rtol=rtol, atol=atol, check_dtype=False)


def exact_attention(tensors, visible):
    """(output, scores) in float64; a row that sees no key gives 0."""
    query, key, value = tensors
    rows = visible.any(dim=1)[:, None]
    scores = (query @ key.mT * query.shape[-1] ** -0.5).masked_fill(~visible & rows, float("-inf"))
    return torch.softmax(scores, dim=-1) * rows @ value, scores


@pytest.mark.parametrize(("q_len", "kv_len"), [(9, 24), (24, 9), (1, 9)])
@pytest.mark.parametrize("window", [None, (3, 1), (None, 2), (4, None)])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("alignment", ["bottom_right", "top_left"])
def test_output_and_gradients_are_those_of_the_mask_in_float64(q_len, kv_len, window, is_causal, alignment):
    shapes = [(1, 2, q_len, 16), (1, 2, kv_len, 16), (1, 2, kv_len, 16)]
    tensors = [draw(*shape, seed=seed, requires_grad=True) for seed, shape in enumerate(shapes)]
    diagonal = torch.arange(q_len)[:, None] + (kv_len - q_len if alignment == "bottom_right" else 0)
    distance, (left, right) = torch.arange(kv_len) - diagonal, window or (None, None)
    right = 0 if is_causal else right
    visible = distance >= -(1000 if left is None else left)
    visible &= distance <= (1000 if right is None else right)
    got = flash_attention(*tensors, is_causal=is_causal, window=window, causal_alignment=alignment)
    exact = in_float64(tensors)
    expected, _ = exact_attention(exact, visible.to(DEVICE))
    close(got, expected)
    if window is None and is_causal and alignment == "top_left":
        close(expected, F.scaled_dot_product_attention(*exact, is_causal=True))
    elif window is None and is_causal and q_len <= kv_len:  # else torch gives NaN to rows without a key
        from torch.nn.attention.bias import causal_lower_right  # loads torch.compile

        mask = causal_lower_right(q_len, kv_len)
        close(expected, F.scaled_dot_product_attention(*exact, attn_mask=mask))
    weight = draw(1, 2, q_len, 16, seed=3)
    gradients = torch.autograd.grad(expected, exact, weight.double())
    close(torch.autograd.grad(got, tensors, weight), gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [-0.7, 0.0])
def test_any_finite_scale(scale, leaves):
    expected, _ = attention_by_rows(*leaves, scale=scale, band=Band.of(33, 33, right=0), dtype=torch.float64)
    close(flash_attention(*leaves, scale=scale, is_causal=True), expected)


@pytest.mark.parametrize("q_len", [1, 33], ids=["decoding", "prefill"])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_heads_and_their_gradients(kv_heads, q_len):
    shapes = [(2, 4, q_len, 16), (2, kv_heads, 70, 16), (2, kv_heads, 70, 16)]
    tensors = [draw(*shape, seed=seed, requires_grad=True) for seed, shape in enumerate(shapes)]
    exact, out = in_float64(tensors), flash_attention(*tensors, enable_gqa=True)
    expected = F.scaled_dot_product_attention(*exact, enable_gqa=True)
    close(out, expected)
    weight = draw(*out.shape, seed=9)
    for each in (weight, weight[:, :, :1].expand_as(out)):
        got = torch.autograd.grad(out, tensors, each, retain_graph=True)
        wanted = torch.autograd.grad(expected, exact, each.double(), retain_graph=True)
        close(got, wanted, rtol=1e-4, atol=1e-4)


def test_lse_is_returned_and_differentiated(leaves):
    out, lse = flash_attention(*leaves, is_causal=True, return_lse=True)
    exact = in_float64(leaves)
    expected, scores = exact_attention(exact, visible_mask(Band.of(33, 33, right=0), device=DEVICE))
    exact_lse = torch.logsumexp(scores, dim=-1)
    close(lse, exact_lse)
    for loss, exact_loss in (
        (lse.square().sum(), exact_lse.square().sum()),
        (out.square().sum() + lse.sum(), expected.square().sum() + exact_lse.sum()),
    ):
        got = torch.autograd.grad(loss, leaves, retain_graph=True)
        options = {"retain_graph": True, "materialize_grads": True}  # V has no part in lse
        close(got, torch.autograd.grad(exact_loss, exact, **options), rtol=1e-4, atol=1e-4)


def test_a_second_derivative_is_refused(leaves):
    (gradient,) = torch.autograd.grad(flash_attention(*leaves).sum(), leaves[0], create_graph=True)
    with pytest.raises(NotImplementedError, match="flash_attention has first derivatives only"):
        gradient.sum().backward()


def test_compiles_without_a_graph_break(leaves):
    def model(query, key, value):
        return flash_attention(query * 2, key, value, is_causal=True).relu()

    backend = "inductor" if DEVICE == "cuda" else "aot_eager"
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    close(compiled(*leaves), model(*leaves))
    got, expected = (torch.autograd.grad(each(*leaves).sum(), leaves) for each in (compiled, model))
    close(got, expected)


def test_the_operators_keep_torchs_contract(leaves):
    torch.library.opcheck(torch.ops.flash_attention.forward.default, (*leaves, 66, 0, 0.2))
    saved = [tensor.detach() for tensor in leaves]
    out, lse = torch.ops.flash_attention.forward(*saved, 66, 0, 0.2)
    torch.library.opcheck(
        torch.ops.flash_attention.backward.default,
        (*saved, out, lse, torch.ones_like(out), None, 66, 0, 0.2),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_autocast_casts_the_inputs(leaves):
    with torch.autocast(DEVICE, torch.bfloat16):
        out = flash_attention(*leaves)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert leaves[0].grad.dtype == torch.float32


def test_nothing_to_do_gives_nothing():
    query, key = draw(2, 3, 5, 16, requires_grad=True), draw(2, 3, 0, 16)
    out, lse = flash_attention(query, key, key, return_lse=True)
    assert not out.any()
    assert (lse == float("-inf")).all()
    assert flash_attention(query[:, :, :0], query, query).shape == (2, 3, 0, 16)
    out.sum().backward()
    assert not query.grad.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q[0], k, v), r"query has shape \(2, 33, 32\); expected \(batch, heads"),
        (lambda q, k, v: (q, k.half(), v), "key has dtype torch.float16; expected float16, bfloat16 or"),
        (lambda q, k, v: (q.double(), k.double(), v.double()), "query has dtype torch.float64; expected"),
        (lambda q, k, v: (q, k[:, :1], v[:, :1]), "key has 1 heads; expected 2, .*enable_gqa=True"),
        (lambda q, k, v: (q, k[..., :16], v), r"key has shape \(1, 2, 33, 16\) and value \(1, 2, 33, 32\)"),
        (lambda q, k, v: (q[..., :8], k[..., :8], v[..., :8]), "query has head_dim 8; expected 16 to 256"),
        (lambda q, k, v: (q.to_sparse(), k, v), r"query has layout torch\.sparse_coo; expected a dense"),
        (lambda q, k, v: (q, k.to("meta"), v), f"key is on meta; expected {DEVICE}"),
    ],
)
def test_a_refused_tensor_is_named_with_what_is_accepted(change, message, leaves):
    with pytest.raises(ValueError, match=message):
        flash_attention(*change(*leaves))
    with pytest.raises(TypeError, match=r"key is a list; expected a torch\.Tensor"):
        flash_attention(leaves[0], [], leaves[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": (-1, 0)}, "window left=-1"),
        ({"window": (1, 2, 3)}, r"window=\(1, 2, 3\) is not accepted"),
        ({"scale": float("nan")}, "scale=nan is not accepted"),
        ({"attn_mask": torch.ones(24, 24)}, r"attn_mask of shape \(24, 24\) is not accepted"),
        ({"attn_mask": "causal"}, "attn_mask 'causal' is not accepted: expected None. Use is_causal=True"),
        ({"dropout_p": 0.1}, "dropout_p=0.1 is not accepted: expected 0.0"),
        ({"causal_alignment": "middle"}, "causal_alignment='middle' is not accepted: expected 'bottom_ri"),
    ],
)
def test_a_refused_option_is_named_with_what_is_accepted(options, message, leaves):
    with pytest.raises(ValueError, match=message):
        flash_attention(*leaves, **options)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("head_dim", [16, 32, 64, 128, 256])
def test_250_deterministic_repeats_are_bitwise_equal(head_dim, is_causal, dtype, poisoned):
    tensors = [draw(2, 4, 500, head_dim, dtype=dtype, seed=seed, requires_grad=True) for seed in range(3)]
    weight = draw(2, 4, 500, head_dim, dtype=dtype, seed=3)

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
    tensors = [
        draw(4, 16, 4096, head_dim, dtype=torch.float16, seed=seed, requires_grad=True) for seed in range(3)
    ]
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
