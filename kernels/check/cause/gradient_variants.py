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
    """A backward pass with switches for its mistakes. The defaults make none."""

    setting: Setting
    d_out: torch.Tensor
    delta: float = 1.0
    """Factor on delta: 0 leaves it out."""
    weights: Setting | None = None
    """Where P comes from if not from the setting, such as one with another mask."""
    rows: torch.Tensor | None = None
    """bool (q_len,): queries whose part of dK and dV is added."""
    keys: torch.Tensor | None = None
    """bool (kv_len,): keys whose part of dQ is added."""
    normalised: bool = True
    heads: str = "sum"
    """Over the query heads of a group: "sum", or the "first" or the "last" alone."""

    def gradients(self, dtype: torch.dtype) -> Gradients:
        """dQ, dK and dV by name."""
        setting = self.setting
        scores, value = (self.weights or setting).scores(dtype)
        lse = torch.logsumexp(setting.scores(dtype)[0], dim=-1, keepdim=True)
        p = torch.exp(scores - torch.where(lse.isinf(), 0.0, lse))
        if not self.normalised:
            m = scores.amax(dim=-1, keepdim=True)
            p = torch.exp(scores - torch.where(m.isinf(), 0.0, m))
        group = group_size(setting.query, setting.key)
        key = setting.key.to(dtype).repeat_interleave(group, dim=1)
        query, d_out = setting.query.to(dtype), self.d_out.to(dtype)
        true_p = torch.softmax(setting.scores(dtype)[0], dim=-1).nan_to_num(nan=0.0)
        delta = ((true_p @ value) * d_out).sum(dim=-1, keepdim=True)
        ds = p * (d_out @ value.transpose(-2, -1) - self.delta * delta) * setting.scale
        to_keys = ds if self.rows is None else ds * self.rows[:, None]
        p_to_keys = p if self.rows is None else p * self.rows[:, None]
        to_queries = ds if self.keys is None else ds * self.keys
        return {
            "dQ": to_queries @ key,
            "dK": self._reduced(to_keys.transpose(-2, -1) @ query, group),
            "dV": self._reduced(p_to_keys.transpose(-2, -1) @ d_out, group),
        }

    def _reduced(self, per_head: torch.Tensor, group: int) -> torch.Tensor:
        grouped = per_head.unflatten(1, (-1, group))
        if self.heads == "sum":
            return grouped.sum(dim=2)
        return grouped[:, :, 0 if self.heads == "first" else -1]


def gradient_variants(setting: Setting, d_out: torch.Tensor, band: Band) -> Iterator[NamedGradients]:
    """Backward passes with one mistake, the simplest first."""
    right = Backward(setting, d_out)
    yield "those of a backward pass without delta (dS = P dP)", replace(right, delta=0.0).gradients
    yield "those of a backward pass that adds delta", replace(right, delta=-1.0).gradients
    yield "those of a backward pass whose P is not divided by l", replace(right, normalised=False).gradients
    if group_size(setting.query, setting.key) > 1:
        for which in ("first", "last"):
            words = f"those of the {which} query head of each group: the group is not added up"
            yield words, replace(right, heads=which).gradients
    for words, visible in mask_variants(band, setting.query.device):
        if not torch.equal(visible, setting.visible):
            masked = replace(setting, visible=visible)
            yield (
                f"the gradients of {words} (in the backward pass alone)",
                replace(right, weights=masked).gradients,
            )
            yield f"the gradients of {words}", Backward(masked, d_out).gradients
    for words, scale in scale_factors(setting):
        other = replace(setting, scale=scale)
        yield f"the gradients of {words}", Backward(other, d_out).gradients
        yield f"the gradients of {words} (in P alone)", replace(right, weights=other).gradients
    yield from _missing_tiles(right, band)


def _missing_tiles(right: Backward, band: Band) -> Iterator[NamedGradients]:
    rows, keys, _ = positions(band, right.d_out.device)
    for tile in TILES:
        for kind, count, numbers in (("query", band.q_len, rows[:, 0]), ("key", band.kv_len, keys[0])):
            last = (count - 1) // tile * tile
            for which, kept in (("last", numbers < last), ("first", numbers >= tile)):
                if last:
                    changed = replace(right, rows=kept) if kind == "query" else replace(right, keys=kept)
                    where = f"rows {last} to {count - 1}" if which == "last" else f"rows 0 to {tile - 1}"
                    yield f"those without the {which} {kind} tile{HERE}{where}", changed.gradients


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
    found = (
        words for value, words in known.items() if math.isclose(factor, value, rel_tol=0.01, abs_tol=0.003)
    )
    return next(found, "")
