"""What wrong gradients may equal: backward passes with one mistake in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from kernels.check.cause.variants import HERE, TILES, Setting, mask_variants, positions, scale_factors
from kernels.oracle.naive import group_size
from kernels.problem import Band

Gradients = dict[str, torch.Tensor]
NamedGradients = tuple[str, Callable[[torch.dtype], Gradients]]


@dataclass(frozen=True)
class Backward:
    """A backward pass with switches for its mistakes. Called with a type, it gives dQ, dK and dV by name."""

    setting: Setting
    d_out: torch.Tensor
    delta: float = 1.0
    """Factor on delta: 0 leaves it out."""
    weights: Setting | None = None
    """Where P comes from if not from the setting, such as one with another mask."""
    rows: torch.Tensor | float = 1.0
    """(q_len, 1): 1 for queries whose part of dK and dV is added."""
    keys: torch.Tensor | float = 1.0
    """(1, kv_len): 1 for keys whose part of dQ is added."""
    normalised: bool = True
    only_head: int | None = None
    """The one query head of each group that counts; None if the group is added up."""

    def __call__(self, dtype: torch.dtype) -> Gradients:
        setting, group = self.setting, group_size(self.setting.query, self.setting.key)
        scores, value = (self.weights or setting).scores(dtype)
        true_scores = setting.scores(dtype)[0]
        shift = scores.amax(dim=-1, keepdim=True)
        if self.normalised:
            shift = torch.logsumexp(true_scores, dim=-1, keepdim=True)
        p = torch.exp(scores - torch.where(shift.isinf(), 0.0, shift))
        key = setting.key.to(dtype).repeat_interleave(group, dim=1)
        query, d_out = setting.query.to(dtype), self.d_out.to(dtype)
        true_p = torch.softmax(true_scores, dim=-1).nan_to_num(nan=0.0)
        delta = ((true_p @ value) * d_out).sum(dim=-1, keepdim=True)
        ds = p * (d_out @ value.mT - self.delta * delta) * setting.scale
        of_keys = {"dK": (ds * self.rows).mT @ query, "dV": (p * self.rows).mT @ d_out}
        grouped = {name: per_head.unflatten(1, (-1, group)) for name, per_head in of_keys.items()}
        only = self.only_head
        return {"dQ": (ds * self.keys) @ key} | {
            name: each.sum(dim=2) if only is None else each[:, :, only] for name, each in grouped.items()
        }


def gradient_variants(setting: Setting, d_out: torch.Tensor, band: Band) -> Iterator[NamedGradients]:
    """Backward passes with one mistake, the simplest first."""
    right = Backward(setting, d_out)
    yield "those of a backward pass without delta (dS = P dP)", replace(right, delta=0.0)
    yield "those of a backward pass that adds delta", replace(right, delta=-1.0)
    yield "those of a backward pass whose P is not divided by l", replace(right, normalised=False)
    if group_size(setting.query, setting.key) > 1:
        for which, index in (("first", 0), ("last", -1)):
            words = f"those of the {which} query head of each group: the group is not added up"
            yield words, replace(right, only_head=index)
    for words, visible in mask_variants(band, setting.query.device):
        if not torch.equal(visible, setting.visible):
            masked = replace(setting, visible=visible)
            yield f"the gradients of {words} (in the backward pass alone)", replace(right, weights=masked)
            yield f"the gradients of {words}", Backward(masked, d_out)
    for words, scale in scale_factors(setting):
        other = replace(setting, scale=scale)
        yield f"the gradients of {words}", Backward(other, d_out)
        yield f"the gradients of {words} (in P alone)", replace(right, weights=other)
    yield from _missing_tiles(right, band)


def _missing_tiles(right: Backward, band: Band) -> Iterator[NamedGradients]:
    rows, keys, _ = positions(band, right.d_out.device)
    for tile in TILES:
        for kind, numbers in (("query", rows), ("key", keys)):
            end = numbers.numel()
            last = (end - 1) // tile * tile
            for which, kept, where in (
                ("last", numbers < last, f"rows {last} to {end - 1}"),
                ("first", numbers >= tile, f"rows 0 to {tile - 1}"),
            ):
                if last:
                    without = replace(right, rows=kept) if kind == "query" else replace(right, keys=kept)
                    yield f"those without the {which} {kind} tile{HERE}{where}", without


def known_factor(factor: float, setting: Setting) -> str:
    """What a result that is `factor` times the exact one lacks or has too much; "" if that is not known."""
    group, log2e = group_size(setting.query, setting.key), 1 / math.log(2)
    known = {
        0.0: "0 everywhere: nothing was computed or connected",
        -1.0: "the exact one with the other sign",
        1 / setting.scale: "the exact one over the scale: a factor scale is missing",
        setting.scale: "the exact one times the scale: a factor scale is there twice",
        log2e: "the exact one times log2(e): a factor ln 2 is missing",
        1 / log2e: "the exact one times ln 2: there is a factor ln 2 too many",
    }
    if group > 1:
        known[float(group)] = "the exact one times the number of query heads in a group"
        known[1 / group] = "the exact one over the number of query heads in a group"
    near = (
        words for value, words in known.items() if math.isclose(factor, value, rel_tol=0.01, abs_tol=0.003)
    )
    return next(near, "")
