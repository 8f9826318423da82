"""Other computations than the right one, as mistakes in a kernel make them: what a wrong O may equal.

Each is a plain computation in a type that is given: in float64 for the result, in the type of the inputs for
the error that the rule allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from kernels.check.case.layouts import laid_out
from kernels.oracle.naive import group_size, one_key_head_per_query_head
from kernels.problem import Band

TILES = (16, 32, 64, 128)
"""Tile sizes that are tried, in rows or keys."""
MINUS_INFINITY = float("-inf")
HERE = "; here "
"""Parts the words of a variant from numbers of one case."""

Compute = Callable[[torch.dtype], torch.Tensor]
Named = tuple[str, Compute]
"""What a result equals, in words that follow "O equals", and its computation in a type."""


@dataclass(frozen=True)
class Setting:
    """One attention call: what a variant changes a part of."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    visible: torch.Tensor
    """bool (q_len, kv_len)"""
    scale: float

    def scores(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Scaled scores with -inf at keys that are not seen, and V, one head per query head."""
        query, key, value = (tensor.to(dtype) for tensor in (self.query, self.key, self.value))
        key, value = one_key_head_per_query_head(query, key, value)
        scores = query @ key.transpose(-2, -1) * self.scale
        return scores.masked_fill(~self.visible, MINUS_INFINITY), value

    def output(self, dtype: torch.dtype) -> torch.Tensor:
        """O; 0 in rows that see no key."""
        scores, value = self.scores(dtype)
        return torch.softmax(scores, dim=-1).masked_fill(~self.visible, 0.0) @ value


def positions(band: Band, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Row numbers (q_len, 1), key numbers (1, kv_len), and the key on each row's diagonal (q_len, 1)."""
    rows = torch.arange(band.q_len, device=device)[:, None]
    return rows, torch.arange(band.kv_len, device=device)[None, :], rows + band.kv_len - band.q_len


def band_mask(band: Band, device: torch.device, *, left: int = 0, right: int = 0) -> torch.Tensor:
    """The band's mask with its sides moved outwards by so many keys; open sides stay open."""
    _, keys, diagonal = positions(band, device)
    seen = torch.ones(band.q_len, band.kv_len, dtype=torch.bool, device=device)
    if band.bounds_right:
        seen &= keys <= diagonal + band.right + right
    if band.bounds_left:
        seen &= keys >= diagonal - band.left - left
    return seen


def mask_variants(band: Band, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    """Masks that a kernel may have taken for the right one."""
    _, keys, diagonal = positions(band, device)
    right = band_mask(band, device)
    if band.bounds_right:
        off = "with the mask off by one on the right: each query sees one key too"
        yield f"attention {off} many", band_mask(band, device, right=1)
        yield f"attention {off} few", band_mask(band, device, right=-1)
    if band.bounds_left:
        off = "with the window off by one on the left: each query sees one key too"
        yield f"attention {off} many", band_mask(band, device, left=1)
        yield f"attention {off} few", band_mask(band, device, left=-1)
        yield "causal attention without a window", keys <= diagonal
    yield from _other_sides(band, device)
    if band.masks:
        yield "attention without a mask", torch.ones_like(right)
    else:
        yield "causal attention, although no mask was asked for", keys <= diagonal
    for tile in TILES:
        last = (band.kv_len - 1) // tile * tile
        if last:
            yield (
                f"attention without the last key tile{HERE}keys {last} to {band.kv_len - 1}",
                right & (keys < last),
            )
            yield f"attention without the first key tile{HERE}keys 0 to {tile - 1}", right & (keys >= tile)
        if band.bounds_right and band.right == 0:
            start = torch.clamp(diagonal - diagonal % tile, min=0)
            yield f"attention without the {tile}-key tile on the diagonal", right & (keys < start)
            yield f"attention that sees the whole {tile}-key tile on the diagonal", keys < start + tile


def _other_sides(band: Band, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    """Masks with the other alignment, and windows without one of their sides."""
    _, keys, diagonal = positions(band, device)
    top_left = band.q_len - band.kv_len
    is_causal = not band.bounds_left and band.right in (0, top_left)  # top left if the kernel declares that
    if top_left and band.masks:
        declared = is_causal and band.right == top_left
        moved, corner = (-top_left, "bottom right") if declared else (top_left, "top left")
        words = f"attention with the {'causal mask' if is_causal else 'window'} aligned to the {corner}"
        yield words, band_mask(band, device, left=-moved, right=moved)
    if band.bounds_right and band.right != 0 and not is_causal:
        words = "attention without the window's right side: no query sees a key after its diagonal"
        yield words, band_mask(band, device, right=-band.right)
        if band.bounds_left:
            yield "attention without the window's left side", keys <= diagonal + band.right


def output_variants(setting: Setting, band: Band, layout: str) -> Iterator[Named]:
    """What a wrong O may equal, the simplest first."""
    for words, visible in mask_variants(band, setting.query.device):
        if not torch.equal(visible, setting.visible):
            yield words, replace(setting, visible=visible).output
    for words, scale in scale_factors(setting):
        yield words, replace(setting, scale=scale).output
    yield from _heads(setting)
    yield from _axes(setting, layout)
    yield from _tiles(setting, band)
    yield from _rows(setting)


def scale_factors(setting: Setting) -> Iterator[tuple[str, float]]:
    """Factors on the scores that a kernel may have instead of the right one."""
    right = setting.scale
    own = 1.0 / math.sqrt(setting.query.shape[-1])
    padded = 1.0 / math.sqrt(1 << (setting.query.shape[-1] - 1).bit_length())
    factors = {
        "attention without the scale on the scores": 1.0,
        "attention with the scale applied twice": right**2,
        "attention that ignores the scale it is given, and takes 1 / sqrt(head_dim)": own,
        "attention with the scale of the padded head_dim": padded,
        "attention with a factor log2(e) missing: exp2 of scores in natural units": right * math.log(2),
        "attention with a factor log2(e) too many: exp of scores in units of exp2": right / math.log(2),
    }
    yield from ((words, factor) for words, factor in factors.items() if not math.isclose(factor, right))


def _heads(setting: Setting) -> Iterator[Named]:
    query, key, value = setting.query, setting.key, setting.value
    heads, of_keys = query.shape[1], key.shape[1]
    head = torch.arange(heads, device=query.device)
    choices = {
        "attention in which query head h reads key head h % kv_heads": head % of_keys,
        "attention in which query head h reads key head h (clamped)": head.clamp(max=of_keys - 1),
        "attention in which all heads read key head 0": head * 0,
    }
    right = head // group_size(query, key)
    for words, chosen in choices.items():
        if not torch.equal(chosen, right):
            yield words, replace(setting, key=key[:, chosen], value=value[:, chosen]).output
    if query.shape[0] > 1:
        of_first = replace(setting, key=key[:1].expand_as(key), value=value[:1].expand_as(value))
        yield "attention in which every batch reads K and V of batch 0", of_first.output
        one = replace(of_first, query=query[:1].expand_as(query))
        yield "attention of batch 0, in every batch", one.output


def _axes(setting: Setting, layout: str) -> Iterator[Named]:
    query, key, value = setting.query, setting.key, setting.value
    if query.shape[2] == key.shape[2] and query.shape[1] != query.shape[2]:
        swapped = [tensor.transpose(1, 2) for tensor in (query, key, value)]
        everything = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool, device=query.device)
        lower = torch.ones_like(everything).tril()
        for words, visible in (("", everything), (", causal", lower)):
            over_heads = Setting(swapped[0], swapped[1], swapped[2], visible, setting.scale)
            axes = "the axes are read as (batch, length, heads, head_dim)"
            yield f"attention over the heads{words}: {axes}", partial(_with_axes_swapped, over_heads)
    if query.shape[1] > 1:
        read = [_read_as_blhd(tensor) for tensor in (query, key, value)]
        memory = replace(setting, query=read[0], key=read[1], value=read[2])
        shape = query.shape
        yield (
            "attention on memory that is read as (batch, length, heads, head_dim)",
            lambda dtype: memory.output(dtype).transpose(1, 2).reshape(shape),
        )
    if layout != "contiguous":
        yield from _ignored_strides(setting, layout)


def _with_axes_swapped(setting: Setting, dtype: torch.dtype) -> torch.Tensor:
    return setting.output(dtype).transpose(1, 2)


def _read_as_blhd(tensor: torch.Tensor) -> torch.Tensor:
    batch, heads, length, head_dim = tensor.shape
    return tensor.contiguous().view(batch, length, heads, head_dim).transpose(1, 2)


def _ignored_strides(setting: Setting, layout: str) -> Iterator[Named]:
    handed = laid_out((setting.query, setting.key, setting.value), layout)
    if any(
        tensor.storage_offset() + tensor.numel() > tensor.untyped_storage().nbytes() // 2 for tensor in handed
    ):
        return
    read = [
        torch.as_strided(tensor, tensor.shape, torch.empty(tensor.shape, device="meta").stride())
        for tensor in handed
    ]
    memory = replace(setting, query=read[0], key=read[1], value=read[2])
    if any(tensor.stride(-1) != 1 for tensor in handed):
        rows = [torch.as_strided(tensor, tensor.shape, (*tensor.stride()[:-1], 1)) for tensor in handed]
        of_rows = replace(setting, query=rows[0], key=rows[1], value=rows[2])
        yield "attention that takes the last stride of its tensors for 1", of_rows.output
    words = "attention that takes the tensors for contiguous and ignores their strides"
    yield words, memory.output

    def written_likewise(dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty_like(handed[0], dtype=dtype)
        plain = torch.empty(out.shape, device="meta").stride()
        torch.as_strided(out, out.shape, plain).copy_(memory.output(dtype))
        return out

    yield words, written_likewise


def _tiles(setting: Setting, band: Band) -> Iterator[Named]:
    keys = setting.key.shape[2]
    padded: set[int] = set()
    for tile in TILES:
        more = -keys % tile
        if more and more not in padded:
            padded.add(more)
            words = "attention that counts keys of zeros after the last: the tail is not masked"
            yield f"{words}{HERE}{more} keys", _with_zero_keys(setting, band, more).output
        if keys > tile:
            for words, by in (("next", -tile), ("previous", tile)):
                moved = replace(setting, value=_shifted(setting.value, by))
                yield f"attention with the values of the {words} {tile}-key tile", moved.output
    for tile in TILES:
        if keys > tile:
            for words, l_rescaled, acc_rescaled in (
                ("the accumulator is not rescaled when the row max grows", True, False),
                ("the row sum l is not rescaled when the row max grows", False, True),
                ("neither l nor the accumulator is rescaled when the row max grows", False, False),
            ):
                online = partial(_online, setting, tile, l_rescaled, acc_rescaled)
                yield f"online softmax over {tile}-key tiles in which {words}", online


def _with_zero_keys(setting: Setting, band: Band, more: int) -> Setting:
    def padded(tensor: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(tensor, (0, 0, 0, more))

    _, _, diagonal = positions(band, setting.query.device)
    beyond = torch.arange(band.kv_len, band.kv_len + more, device=diagonal.device)[None, :]
    seen = beyond <= diagonal + band.right if band.bounds_right else torch.ones_like(beyond + diagonal).bool()
    visible = torch.cat([setting.visible, seen], dim=1)
    return replace(setting, key=padded(setting.key), value=padded(setting.value), visible=visible)


def _shifted(value: torch.Tensor, by: int) -> torch.Tensor:
    """Rows moved by so many; zeros come in at the end that they leave."""
    moved = torch.zeros_like(value)
    if by > 0:
        moved[:, :, by:] = value[:, :, :-by]
    else:
        moved[:, :, :by] = value[:, :, -by:]
    return moved


def _online(
    setting: Setting, tile: int, l_rescaled: bool, acc_rescaled: bool, dtype: torch.dtype
) -> torch.Tensor:
    """Online softmax over key tiles that leaves out a rescaling. State is float32 as in kernels, or finer."""
    state = torch.float64 if dtype == torch.float64 else torch.float32
    scores, value = setting.scores(state)
    m = torch.full(scores.shape[:-1], MINUS_INFINITY, dtype=state, device=scores.device)
    l, acc = torch.zeros_like(m), torch.zeros(setting.query.shape, dtype=state, device=scores.device)
    for first in range(0, scores.shape[-1], tile):
        part = scores[..., first : first + tile]
        m_new = torch.maximum(m, part.amax(dim=-1))
        safe = torch.where(m_new == MINUS_INFINITY, 0.0, m_new)
        alpha, p = torch.exp(m - safe), torch.exp(part - safe[..., None])
        l = (l * alpha if l_rescaled else l) + p.sum(dim=-1)
        acc = acc * alpha[..., None] if acc_rescaled else acc
        acc = acc + p.to(dtype).to(state) @ value[..., first : first + tile, :]
        m = m_new
    return (acc / torch.where(l == 0, 1.0, l)[..., None]).to(dtype)


def _rows(setting: Setting) -> Iterator[Named]:
    """Mistakes at the end of a row, and in rows that see no key."""
    keyless = ~setting.visible.any(dim=-1)

    def unnormalised(dtype: torch.dtype) -> torch.Tensor:
        scores, value = setting.scores(dtype)
        m = scores.amax(dim=-1, keepdim=True)
        return torch.exp(scores - torch.where(m == MINUS_INFINITY, 0.0, m)) @ value

    def overflowing(dtype: torch.dtype) -> torch.Tensor:
        scores, value = setting.scores(torch.float32)
        exponentials = torch.exp(scores)
        return (exponentials @ value) / exponentials.sum(dim=-1, keepdim=True)

    yield "attention that is not divided by the row sum l", unnormalised
    if keyless.any():
        yield from _keyless_rows(setting, keyless)
    yield "softmax without the row max subtracted: its exponentials overflow", overflowing


def _keyless_rows(setting: Setting, keyless: torch.Tensor) -> Iterator[Named]:
    def in_keyless_rows(fill: Callable[[torch.Tensor], torch.Tensor]) -> Compute:
        def compute(dtype: torch.dtype) -> torch.Tensor:
            out, value = setting.output(dtype), setting.scores(dtype)[1]
            rows = fill(value).expand(out.shape)
            return torch.where(keyless[:, None], rows, out)

        return compute

    nan = torch.full((), float("nan"), device=keyless.device)
    yield (
        "attention in which rows that see no key give NaN (0 / 0) and not 0",
        in_keyless_rows(lambda value: nan.to(value.dtype)),
    )
    yield (
        "attention in which rows that see no key give the mean of V and not 0",
        in_keyless_rows(lambda value: value.mean(dim=2, keepdim=True)),
    )
    seen = setting.visible | keyless[:, None]
    yield "attention in which rows that see no key see all keys", replace(setting, visible=seen).output
