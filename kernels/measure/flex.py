"""FlexAttention of a problem, masks and scores beyond a band included."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from kernels.problem import AttentionProblem
from kernels.problem.expression import evaluate


def flex_attention_of(problem: AttentionProblem) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`flex_attention`, compiled, with the problem's mask_mod, score_mod and block mask, on a GPU."""
    torch._dynamo.reset()  # otherwise, after eight shapes, it silently runs attention that is not fused
    torch._functorch.config.donated_buffer = False  # a backward pass is timed several times over one graph
    options: dict[str, Any] = {"score_mod": score_mod(problem, "cuda"), "enable_gqa": problem.group_size > 1}
    if visible := mask_mod(problem, "cuda"):
        by_head = problem.pattern is not None and problem.pattern.by_head
        batch, heads = (problem.batch, problem.q_heads) if by_head else (None, None)
        options["block_mask"] = create_block_mask(visible, batch, heads, problem.q_len, problem.kv_len)
    compiled: Callable[..., Any] = torch.compile(flex_attention, dynamic=False)
    if not (problem.pattern and problem.pattern.sinks):
        return functools.partial(compiled, **options)
    sinks = torch.tensor(problem.pattern.sinks, device="cuda")[:, None]

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out, lse = compiled(query, key, value, return_lse=True, **options)
        return out * torch.sigmoid(lse - sinks).to(out.dtype)[..., None]

    return attend


def mask_mod(problem: AttentionProblem, device: str) -> Callable[..., Tensor] | None:
    """FlexAttention's mask_mod of the problem; None if every query sees every key."""
    band, offset, pattern = problem.band, problem.kv_len - problem.q_len, problem.pattern
    if pattern is None or pattern.mask is None:

        def in_band(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return (k <= q + offset + band.right) & (k >= q + offset - band.left)

        return in_band if band.masks else None
    node, documents = pattern.mask, torch.from_numpy(pattern.document_of()).to(device)

    def seen(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        names = {"q": q + offset, "k": k, "h": h, "b": b}
        if node.asks_documents:
            names |= {"doc(q)": documents[q + offset], "doc(k)": documents[k]}
        return evaluate(node, names)

    return seen


def score_mod(problem: AttentionProblem, device: str) -> Callable[..., Tensor] | None:
    """FlexAttention's score_mod of the problem; None if scores are not changed."""
    pattern, offset = problem.pattern, problem.kv_len - problem.q_len
    if pattern is None or not (pattern.softcap or pattern.slopes):
        return None
    cap, slopes = pattern.softcap, torch.tensor(pattern.slopes, device=device)

    def changed(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if cap:
            score = cap * torch.tanh(score / cap)
        return score - slopes[h] * (q + offset - k).abs() if pattern.slopes else score

    return changed
