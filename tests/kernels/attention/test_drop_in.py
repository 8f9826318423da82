"""flash_attention in place of scaled_dot_product_attention: in layers, in models, under transforms."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from examples import hugging_face
from kernels import flash_attention
from kernels.device.runtime import DEVICE
from kernels.oracle.naive import visible_mask
from kernels.problem import Band
from tests.kernels.attention.conftest import draw


def test_arguments_by_position_are_those_of_torch(qkv):
    names = list(inspect.signature(flash_attention).parameters)
    assert names[:6] == ["query", "key", "value", "attn_mask", "dropout_p", "is_causal"]
    got, expected = (
        attend(*qkv, None, 0.0, True, scale=0.2, enable_gqa=True)
        for attend in (flash_attention, F.scaled_dot_product_attention)
    )
    torch.testing.assert_close(got, expected, rtol=2e-5, atol=2e-5)


def test_meta_tensors_give_a_meta_tensor(qkv):
    out, lse = flash_attention(*(tensor.to("meta") for tensor in qkv), return_lse=True)
    assert (out.shape, out.device.type, lse.shape) == ((1, 2, 12, 16), "meta", (1, 2, 12))


def per_sample(function, tensors):
    return torch.stack([function(*sample) for sample in zip(*tensors, strict=True)])


def test_vmap_is_a_loop(qkv):
    many = [torch.stack([tensor, 2 * tensor, -tensor]) for tensor in qkv]
    torch.testing.assert_close(torch.func.vmap(flash_attention)(*many), per_sample(flash_attention, many))
    query, (_, key, value) = many[0].movedim(0, 1), qkv
    over_one = torch.func.vmap(flash_attention, in_dims=(1, None, None))(query, key, value)
    torch.testing.assert_close(over_one, torch.stack([flash_attention(q, key, value) for q in many[0]]))


def test_gradients_of_torch_func_are_those_of_autograd(qkv):
    weight = draw(1, 2, 12, 16, seed=5)

    def loss(query, key, value):
        return (flash_attention(query, key, value, is_causal=True) * weight).sum()

    leaves = [tensor.clone().requires_grad_() for tensor in qkv]
    expected = torch.autograd.grad(loss(*leaves), leaves)
    torch.testing.assert_close(torch.func.grad(loss, argnums=(0, 1, 2))(*qkv), expected)
    many = [torch.stack([tensor, 2 * tensor]) for tensor in qkv]
    each = torch.func.vmap(torch.func.grad(loss))(*many)
    torch.testing.assert_close(each, per_sample(torch.func.grad(loss), many))
    out = flash_attention(*leaves)
    weights = torch.stack([weight, 2 * weight])
    (batched,) = torch.autograd.grad(out, leaves[:1], weights, is_grads_batched=True, retain_graph=True)
    (single,) = torch.autograd.grad(out, leaves[:1], weight)
    torch.testing.assert_close(batched, torch.stack([single, 2 * single]))


def test_second_and_forward_derivatives_are_refused_in_words(qkv):
    query, key, value = qkv

    def loss(query):
        return flash_attention(query, key, value).sum()

    with pytest.raises(NotImplementedError, match="flash_attention has first derivatives only"):
        torch.func.grad(lambda query: torch.func.grad(loss)(query).sum())(query)
    with pytest.raises(NotImplementedError, match="flash_attention has no forward-mode derivative"):
        torch.func.jvp(loss, (query,), (query,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(query, query)
        with pytest.raises(NotImplementedError, match="flash_attention has no forward-mode derivative"):
            flash_attention(dual, key, value)
        flash_attention(query, key, value)


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_transformer_encoder_layer_runs_on_it(is_causal, monkeypatch):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 2, 48, dropout=0.0, batch_first=True).to(DEVICE)
    x, weight = draw(2, 33, 32).requires_grad_(), draw(2, 33, 32, seed=1)
    mask = nn.Transformer.generate_square_subsequent_mask(33, device=DEVICE) if is_causal else None
    parameters = [x, *layer.parameters()]

    def run():
        out = layer(x, src_mask=mask, is_causal=is_causal)
        return out, *torch.autograd.grad(out, parameters, weight)

    expected, calls = run(), []

    def counted(*arguments, **options):
        calls.append(arguments)
        return flash_attention(*arguments, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    torch.testing.assert_close(run(), expected, rtol=1e-4, atol=1e-4)
    assert len(calls) == 1


@torch.no_grad()
def test_a_model_on_it_compiles_for_any_length(monkeypatch):
    """Gradients are compiled in `test_flash_attention`, of something smaller."""
    monkeypatch.setattr(F, "scaled_dot_product_attention", flash_attention)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 2, 48, dropout=0.0, batch_first=True).to(DEVICE)
    backend = "inductor" if DEVICE == "cuda" else "aot_eager"
    compiled = torch.compile(layer, fullgraph=True, backend=backend, dynamic=True)
    for length in (20, 33, 47):
        x = draw(1, length, 32)
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-4, atol=1e-4)


class Layer(nn.Module):
    """What transformers hands to an attention function: the layer itself."""

    is_causal = True


def test_hugging_faces_signature():
    query, key, value = draw(1, 4, 5, 16), draw(1, 2, 12, 16, seed=1), draw(1, 2, 12, 16, seed=2)
    out, weights = hugging_face.attention_forward(
        Layer(), query, key, value, None, dropout=0.0, scaling=0.2, sliding_window=4, use_cache=True
    )
    visible = visible_mask(Band.of(5, 12, 3, 0), device=DEVICE)
    expected = F.scaled_dot_product_attention(
        query, key, value, attn_mask=visible, scale=0.2, enable_gqa=True
    ).transpose(1, 2)
    torch.testing.assert_close(out, expected, rtol=2e-5, atol=2e-5)
    assert weights is None
    for mask, options, message in (
        (visible, {}, "attn_mask of shape"),
        (None, {"dropout": 0.1}, "dropout_p=0.1"),
        (None, {"softcap": 30.0}, "softcap is not accepted"),
    ):
        with pytest.raises(ValueError, match=message):
            hugging_face.attention_forward(Layer(), query, key, value, mask, **options)


def test_a_model_of_transformers_runs_on_it():
    transformers = pytest.importorskip("transformers", reason="transformers (155 MB) is not installed")
    hugging_face.register()
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(vocab_size=50, intermediate_size=96, **sizes)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to(DEVICE).eval()
    tokens = torch.arange(1, 21, device=DEVICE)[None]  # 0 would be taken for padding
    logits, made = {}, {}
    for name in ("sdpa", hugging_face.NAME):
        model.set_attn_implementation(name)
        logits[name] = model(tokens).logits
        made[name] = model.generate(tokens, max_new_tokens=5, do_sample=False, pad_token_id=0)
    torch.testing.assert_close(logits[hugging_face.NAME], logits["sdpa"], rtol=1e-4, atol=1e-4)
    assert torch.equal(made[hugging_face.NAME], made["sdpa"])
    padding = torch.ones_like(tokens)
    padding[:, :3] = 0
    with pytest.raises(ValueError, match="attn_mask of shape"):
        model(tokens, attention_mask=padding)
