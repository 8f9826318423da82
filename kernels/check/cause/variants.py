"""Other computations than the right one, as mistakes in a kernel make them: what O and gradients may equal.

Each is a plain computation in a type that is given: in float64 for the result, in the type of the inputs for
the error that the rule allows.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from kernels.check.case.layouts import laid_out
from kernels.oracle.naive import changed_scores, group_size, one_key_head_per_query_head, per_head, whole_mask
from kernels.problem import LIMITS, AttentionProblem, Band, Pattern

TILES = (16, 32, 64, 128)
"""Tile sizes that are tried, in rows or keys."""
MINUS_INFINITY, LOG2E = float("-inf"), 1 / math.log(2)
HERE = "; here "
"""Parts the words of a variant from numbers of one case."""

Change = Callable[[torch.Tensor], torch.Tensor]
Compute = Callable[[torch.dtype], torch.Tensor]
Named = tuple[str, Compute]
"""What a result equals, in words that follow "O equals", and its computation in a type."""
Gradients = dict[str, torch.Tensor]
NamedGradients = tuple[str, Callable[[torch.dtype], Gradients]]


@dataclass(frozen=True)
class Setting:
    """One attention call, of which a variant changes a part. Called with a type, it gives O."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    visible: torch.Tensor
    """bool (q_len, kv_len)"""
    scale: float
    pattern: Pattern | None = None
    """What changes its scores, and its sinks; what it hides is in `visible`."""

    def unmasked(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Scaled scores before the mask, and V, one head per query head."""
        query, key, value = (tensor.to(dtype) for tensor in (self.query, self.key, self.value))
        key, value = one_key_head_per_query_head(query, key, value)
        scores = query @ key.transpose(-2, -1) * self.scale
        return changed_scores(scores, self.pattern)[0] if self.pattern else scores, value

    def scores(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """The same with -inf at keys that are not seen."""
        scores, value = self.unmasked(dtype)
        return scores.masked_fill(~self.visible, MINUS_INFINITY), value

    def __call__(self, dtype: torch.dtype) -> torch.Tensor:
        """O; 0 in rows that see no key."""
        scores, value = self.scores(dtype)
        weights = torch.softmax(scores, dim=-1).masked_fill(~self.visible, 0.0)
        if self.pattern and self.pattern.sinks:
            lse = torch.logsumexp(scores, dim=-1, keepdim=True)
            weights = weights * torch.sigmoid(lse - per_head(self.pattern.sinks, scores))
        return weights @ value

    def lse(self) -> torch.Tensor:
        """In float64; -inf in rows that see no key, or their sink."""
        lse = torch.logsumexp(self.scores(torch.float64)[0], dim=-1)
        sinks = self.pattern and self.pattern.sinks
        return torch.logaddexp(lse, per_head(sinks, lse)[..., 0]) if sinks else lse

    def of_keys(self, change: Change) -> "Setting":
        return replace(self, key=change(self.key), value=change(self.value))

    def of_all(self, change: Change) -> "Setting":
        return replace(self.of_keys(change), query=change(self.query))


def positions(band: Band, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Row numbers (q_len, 1), key numbers (1, kv_len), and the key on each row's diagonal (q_len, 1)."""
    rows = torch.arange(band.q_len, device=device)[:, None]
    return rows, torch.arange(band.kv_len, device=device)[None, :], rows + band.kv_len - band.q_len


def band_mask(band: Band, device: torch.device, *, left: int = 0, right: int = 0) -> torch.Tensor:
    """The band's mask with its sides moved outwards by so many keys; open sides stay open."""
    right = band.right + right if band.bounds_right else band.right
    left = band.left + left if band.bounds_left else band.left
    return whole_mask(band._replace(left=left, right=right), device)


def mask_variants(band: Band, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    """Masks that a kernel may have taken for the right one."""
    _, keys, diagonal = positions(band, device)
    right = band_mask(band, device)
    for side, what, bounds in (("right", "mask", band.bounds_right), ("left", "window", band.bounds_left)):
        for count, by in (("many", 1), ("few", -1)) if bounds else ():
            words = f"attention with the {what} off by one on the {side}: each query sees one key too {count}"
            yield words, band_mask(band, device, **{side: by})
    if band.bounds_left:
        yield "causal attention without a window", keys <= diagonal
    yield from _other_sides(band, device)
    if band.masks:
        yield "attention without a mask", torch.ones_like(right)
    else:
        yield "causal attention, although no mask was asked for", keys <= diagonal
    for tile in TILES:
        last = (band.kv_len - 1) // tile * tile
        if last:
            at_the_end = f"keys {last} to {band.kv_len - 1}"
            yield f"attention without the last key tile{HERE}{at_the_end}", right & (keys < last)
            yield f"attention without the first key tile{HERE}keys 0 to {tile - 1}", right & (keys >= tile)
        if band.bounds_right and band.right == 0:
            start = torch.clamp(diagonal - diagonal % tile, min=0)
            yield f"attention without the {tile}-key tile on the diagonal", right & (keys < start)
            yield f"attention that sees the whole {tile}-key tile on the diagonal", keys < start + tile
            for which, first in (("first", 0), ("last", last)):
                inside = (keys == diagonal) & (keys >= first) & (keys < first + tile)
                words = f"attention without the keys on the diagonal of the {which} key tile: < instead of <="
                yield f"{words}{HERE}keys {first} to {first + tile - 1}", right & ~inside
            for q_tile in (each for each in TILES if each >= tile):
                rows = diagonal - diagonal[0]
                first_row = torch.clamp(diagonal - rows % q_tile, min=0)
                last_row = torch.clamp(diagonal - rows % q_tile + q_tile - 1, max=band.kv_len - 1)
                tiles = f"tiles of {q_tile} queries and {tile} keys"
                words = "attention whose loop ends at the tile of the first row's diagonal"
                yield f"{words}: {tiles}", right & (keys < (first_row // tile + 1) * tile)
                words = "attention that masks the last key tile of each query tile alone"
                yield f"{words}: {tiles}", right | (keys < last_row // tile * tile)


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
            yield words, replace(setting, visible=visible)
    for words, scale in scale_factors(setting):
        yield words, replace(setting, scale=scale)
    yield from _heads(setting)
    yield from _axes(setting)
    if layout != "contiguous":
        yield from _ignored_strides(setting, layout)
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
    heads, key_heads = setting.query.shape[1], setting.key.shape[1]
    head = torch.arange(heads, device=setting.query.device)
    choices = {
        "attention in which query head h reads key head h % kv_heads": head % key_heads,
        "attention in which query head h reads key head h (clamped)": head.clamp(max=key_heads - 1),
        "attention in which all heads read key head 0": head * 0,
    }
    right = head // group_size(setting.query, setting.key)
    for words, chosen in choices.items():
        if not torch.equal(chosen, right):
            yield words, setting.of_keys(partial(torch.index_select, dim=1, index=chosen))
    if setting.query.shape[0] > 1:
        first = lambda tensor: tensor[:1].expand_as(tensor)  # noqa: E731
        yield "attention in which every batch reads K and V of batch 0", setting.of_keys(first)
        yield "attention of batch 0, in every batch", setting.of_all(first)


def _axes(setting: Setting) -> Iterator[Named]:
    """Heads and lengths taken for each other."""
    (_, heads, q_len, _), shape = setting.query.shape, setting.query.shape
    if q_len == setting.key.shape[2] != heads:
        everything = setting.visible.new_ones(heads, setting.key.shape[1])
        for words, visible in (("", everything), (", causal", everything.tril())):
            over_heads = replace(setting.of_all(lambda tensor: tensor.transpose(1, 2)), visible=visible)
            axes = "the axes are read as (batch, length, heads, head_dim)"
            yield f"attention over the heads{words}: {axes}", partial(_with_axes_swapped, over_heads)
    if heads > 1:
        words = "attention on memory that is read as (batch, length, heads, head_dim)"
        memory = setting.of_all(_read_as_blhd)
        yield words, lambda dtype: _with_axes_swapped(memory, dtype).reshape(shape)


def _with_axes_swapped(setting: Setting, dtype: torch.dtype) -> torch.Tensor:
    return setting(dtype).transpose(1, 2)


def _read_as_blhd(tensor: torch.Tensor) -> torch.Tensor:
    batch, heads, length, head_dim = tensor.shape
    return tensor.contiguous().view(batch, length, heads, head_dim).transpose(1, 2)


def _ignored_strides(setting: Setting, layout: str) -> Iterator[Named]:
    handed = laid_out((setting.query, setting.key, setting.value), layout)
    if any(each.storage_offset() + each.numel() > each.untyped_storage().nbytes() // 2 for each in handed):
        return

    def read(strides_of: Callable[[torch.Tensor], tuple[int, ...]]) -> Setting:
        query, key, value = (torch.as_strided(each, each.shape, strides_of(each)) for each in handed)
        return replace(setting, query=query, key=key, value=value)

    if any(tensor.stride(-1) != 1 for tensor in handed):
        last_is_1 = read(lambda tensor: (*tensor.stride()[:-1], 1))
        may = 'if that is meant, declare "strides": "last_is_1" in its CHECK, see the README'
        yield f"attention that takes the last stride of its tensors for 1 ({may})", last_is_1
    if handed[2].stride() != handed[1].stride():
        value = torch.as_strided(handed[2], handed[2].shape, handed[1].stride())
        yield "attention that reads V with the strides of K", replace(setting, value=value)
    words = "attention that takes the tensors for contiguous and ignores their strides"
    memory = read(_plain_strides)
    yield words, memory

    def written_likewise(dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty_like(handed[0], dtype=dtype)
        torch.as_strided(out, out.shape, _plain_strides(out)).copy_(memory(dtype))
        return out

    yield words, written_likewise


def _plain_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return torch.empty(tensor.shape, device="meta").stride()


def _tiles(setting: Setting, band: Band) -> Iterator[Named]:
    """Mistakes at the boundaries of key tiles."""
    keys = setting.key.shape[2]
    for more in dict.fromkeys(-keys % tile for tile in TILES):
        if more:
            words = "attention that counts keys of zeros after the last: the tail is not masked"
            yield f"{words}{HERE}{more} keys", _with_zero_keys(setting, band, more)
    tiles = [tile for tile in TILES if tile < keys]
    for tile in tiles:
        for which, pad in (("next", (0, 0, -tile, tile)), ("previous", (0, 0, tile, -tile))):
            moved = torch.nn.functional.pad(setting.value, pad)
            yield f"attention with the values of the {which} {tile}-key tile", replace(setting, value=moved)
    for tile in tiles:
        for words, changes in RESCALINGS.items():
            yield f"online softmax over {tile}-key tiles in which {words}", Online(setting, tile, **changes)


def _with_zero_keys(setting: Setting, band: Band, more: int) -> Setting:
    padded = setting.of_keys(lambda tensor: torch.nn.functional.pad(tensor, (0, 0, 0, more)))
    _, _, diagonal = positions(band, setting.query.device)
    beyond = torch.arange(band.kv_len, band.kv_len + more, device=diagonal.device)[None, :]
    seen = beyond <= diagonal + band.right if band.bounds_right else torch.ones_like(beyond + diagonal).bool()
    return replace(padded, visible=torch.cat([setting.visible, seen], dim=1))


RESCALINGS: dict[str, dict[str, float]] = {
    "the accumulator is not rescaled when the row max grows": {"acc_power": 0},
    "the row sum l is not rescaled when the row max grows": {"l_power": 0},
    "neither l nor the accumulator is rescaled when the row max grows": {"l_power": 0, "acc_power": 0},
    "the accumulator is rescaled twice": {"acc_power": 2},
    "the row sum l is rescaled twice": {"l_power": 2},
    "l and the accumulator are rescaled twice": {"l_power": 2, "acc_power": 2},
    "the rescaling takes exp of a max in units of exp2": {"l_power": LOG2E, "acc_power": LOG2E},
    "the rescaling takes exp2 of a max in natural units": {"l_power": 1 / LOG2E, "acc_power": 1 / LOG2E},
}
"""Mistakes of online softmax, as fields of Online."""


@dataclass(frozen=True)
class Online:
    """Online softmax over key tiles with a mistake in it. Called with a type, it gives O."""

    setting: Setting
    tile: int
    l_power: float = 1
    """l is multiplied by this power of alpha = e^(old m - new m), which is 1 if it is right."""
    acc_power: float = 1
    """Likewise of the accumulator."""

    def __call__(self, dtype: torch.dtype) -> torch.Tensor:
        _, l, acc = self._state(dtype)
        return (acc / torch.where(l == 0, 1.0, l)[..., None]).to(dtype)

    def lse(self) -> torch.Tensor:
        m, l, _ = self._state(torch.float64)
        return m + torch.log(l)

    def _state(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """m, l and the accumulator after the last tile. They are float32 as in kernels, or finer."""
        state = torch.float64 if dtype == torch.float64 else torch.float32
        scores, value = self.setting.scores(state)
        m = torch.full(scores.shape[:-1], MINUS_INFINITY, dtype=state, device=scores.device)
        l, acc = torch.zeros_like(m), torch.zeros(self.setting.query.shape, dtype=state, device=scores.device)
        for part, values in zip(scores.split(self.tile, dim=-1), value.split(self.tile, dim=-2), strict=True):
            m_new = torch.maximum(m, part.amax(dim=-1))
            safe = torch.where(m_new == MINUS_INFINITY, 0.0, m_new)
            alpha, p = torch.exp(m - safe), torch.exp(part - safe[..., None])
            l = l * alpha**self.l_power + p.sum(dim=-1)
            acc = acc * alpha[..., None] ** self.acc_power + p.to(dtype).to(state) @ values
            m = m_new
        return m, l, acc


def _rows(setting: Setting) -> Iterator[Named]:
    """Mistakes at the end of a row, and in rows that see no key."""
    keyless = ~setting.visible.any(dim=-1, keepdim=True)

    def unnormalised(dtype: torch.dtype) -> torch.Tensor:
        scores, value = setting.scores(dtype)
        m = scores.amax(dim=-1, keepdim=True)
        return torch.exp(scores - torch.where(m == MINUS_INFINITY, 0.0, m)) @ value

    def overflowing(dtype: torch.dtype) -> torch.Tensor:
        scores, value = setting.scores(torch.float32)
        exponentials = torch.exp(scores)
        return (exponentials @ value) / exponentials.sum(dim=-1, keepdim=True)

    def with_mean(dtype: torch.dtype) -> torch.Tensor:
        mean = setting.scores(dtype)[1].mean(dim=2, keepdim=True)
        return torch.where(keyless, mean, setting(dtype))

    def linear(dtype: torch.dtype) -> torch.Tensor:
        scores, value = setting.unmasked(dtype)
        return scores.masked_fill(~setting.visible, 0.0) @ value

    yield "attention that is not divided by the row sum l", unnormalised
    yield "the product of the masked scores and V: there is no softmax", linear
    if keyless.any():
        instead = "attention in which rows that see no key give"
        yield f"{instead} NaN (0 / 0) and not 0", lambda dtype: setting(dtype).masked_fill(keyless, math.nan)
        yield f"{instead} the mean of V and not 0", with_mean
        seen = replace(setting, visible=setting.visible | keyless)
        yield "attention in which rows that see no key see all keys", seen
    yield "softmax without the row max subtracted: its exponentials overflow", overflowing


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
    group = group_size(setting.query, setting.key)
    known = {
        0.0: "0 everywhere: nothing was computed or connected",
        -1.0: "the exact one with the other sign",
        1 / setting.scale: "the exact one over the scale: a factor scale is missing",
        setting.scale: "the exact one times the scale: a factor scale is there twice",
        LOG2E: "the exact one times log2(e): a factor ln 2 is missing",
        1 / LOG2E: "the exact one times ln 2: there is a factor ln 2 too many",
    }
    if group > 1:
        known[float(group)] = "the exact one times the number of query heads in a group"
        known[1 / group] = "the exact one over the number of query heads in a group"
    near = (
        words for value, words in known.items() if math.isclose(factor, value, rel_tol=0.01, abs_tol=0.003)
    )
    return next(near, "")


def pattern_variants(setting: Setting, pattern: Pattern, problem: AttentionProblem) -> Iterator[Named]:
    """What a wrong O may equal by a mistake in its pattern, which is the problem's, the simplest first."""
    if pattern.softcap:
        yield "attention without the softcap", replace(setting, pattern=replace(pattern, softcap=0))
        after = "attention with the softcap applied after the mask: a hidden key has the score -softcap"
        yield after, partial(_capped_after, setting, pattern.softcap)
    if pattern.slopes:
        turned = replace(pattern, slopes=tuple(-slope for slope in pattern.slopes))
        words = "attention with ALiBi slopes of the wrong sign: farther keys count more"
        yield words, replace(setting, pattern=turned)
        yield "attention without ALiBi", replace(setting, pattern=replace(pattern, slopes=()))
    if pattern.sinks:
        words = "attention in which the sink is missing from the row sum l"
        yield words, replace(setting, pattern=replace(pattern, sinks=()))
    device = setting.query.device
    for words, other in _other_masks(problem):
        visible = whole_mask(other.rule, device)
        if not torch.equal(visible, setting.visible):
            yield words, replace(setting, visible=visible)
    if problem.mask == "documents":
        words = "attention in which a document sees the last key of the one before it"
        yield words, replace(setting, visible=setting.visible | _last_key_before(pattern, device))


def _other_masks(problem: AttentionProblem) -> Iterator[tuple[str, AttentionProblem]]:
    """Problems whose mask a kernel may have taken for the right one."""
    if problem.mask == "sinks":
        for count, by in (("long", 1), ("short", -1)):
            moved = min(max(problem.window_left + by, 0), LIMITS["window_left"][1])
            yield f"attention with a window one key too {count}", problem.with_(window_left=moved)
        without = problem.with_(mask="window", window_right=0)
        yield "attention without the first keys that stay visible", without
    if problem.mask in ("sinks", "prefix"):
        for count, by in (("many", 1), ("few", -1)):
            moved = min(max(problem.prefix + by, 1), LIMITS["prefix"][1])
            yield f"attention with one first key too {count}", problem.with_(prefix=moved)
    if problem.mask != "causal":
        yield "causal attention, without the mask that was asked for", problem.with_(mask="causal")
    yield "attention without a mask", problem.with_(mask="full")


def _last_key_before(pattern: Pattern, device: torch.device) -> torch.Tensor:
    """bool (q_len, kv_len): the last key of the document before that of each query."""
    document = torch.from_numpy(pattern.document_of()).to(device)
    of_query = document[pattern.first_position :][:, None]
    is_last = torch.cat([document[1:] > document[:-1], document.new_zeros(1, dtype=torch.bool)])
    after = torch.cat([document[1:], document[-1:]])
    return is_last & (after == of_query)


def _capped_after(setting: Setting, softcap: float, dtype: torch.dtype) -> torch.Tensor:
    scores, value = setting.unmasked(dtype)
    return torch.softmax(scores.masked_fill(~setting.visible, -softcap), dim=-1) @ value
