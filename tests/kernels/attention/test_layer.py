"""MultiHeadAttention and its gradients against torch's layer in float64 (Chu, Liu and Lin 2026, appendix)."""

import pytest
import torch
from torch import nn

from examples.multi_head import MultiHeadAttention
from kernels.device.runtime import DEVICE
from tests.kernels.attention.conftest import draw

PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def pair(embed_dim=32, num_heads=2, is_causal=False):
    """Our layer and torch's with the same parameters."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(embed_dim, num_heads, is_causal=is_causal).to(DEVICE)
    theirs = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True).to(DEVICE)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([getattr(ours, name).weight for name in PROJECTIONS]))
        theirs.in_proj_bias.copy_(torch.cat([getattr(ours, name).bias for name in PROJECTIONS]))
        theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    return ours, theirs


@pytest.mark.parametrize("is_causal", [False, True])
def test_output_and_gradients_are_those_of_torchs_layer_in_float64(is_causal):
    ours, theirs = pair(is_causal=is_causal)
    theirs = theirs.double()
    x = draw(2, 33, 32, requires_grad=True)
    exact_x = x.detach().double().requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(33, device=DEVICE, dtype=torch.float64)
    mask = mask if is_causal else None
    out, expected = ours(x), theirs(exact_x, exact_x, exact_x, attn_mask=mask, need_weights=False)[0]
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(out)
    out.backward(weight)
    expected.backward(weight.double())
    torch.testing.assert_close(x.grad.double(), exact_x.grad, rtol=1e-4, atol=1e-4)
    into = torch.cat([getattr(ours, name).weight.grad for name in PROJECTIONS])
    got, expected = (
        (into, ours.out_proj.weight.grad),
        (theirs.in_proj_weight.grad, theirs.out_proj.weight.grad),
    )
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4, check_dtype=False)


def test_shared_key_and_value_heads():
    layer = MultiHeadAttention(64, 4, num_kv_heads=2).to(DEVICE)
    assert layer.k_proj.weight.shape == (32, 64)
    x = torch.randn(1, 20, 64, device=DEVICE, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("sizes", [(64, 5, None), (64, 4, 3)])
def test_sizes_that_do_not_fit_are_refused(sizes):
    embed_dim, num_heads, num_kv_heads = sizes
    given = f"embed_dim={embed_dim}, num_heads={num_heads}, num_kv_heads={num_kv_heads or num_heads}"
    with pytest.raises(ValueError, match=f"{given} do not fit"):
        MultiHeadAttention(embed_dim, num_heads, num_kv_heads=num_kv_heads)
