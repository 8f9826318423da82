"""The cards, the table and the sentences of a model's costs. Pure: no streamlit."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernels.device.gpus import Gpu
from kernels.measure.measurement import Measurement
from kernels.measure.nearest import NAIVE
from kernels.models import Model
from kernels.models.cost import OURS, Costs, Estimates, costs
from viz.shared.figures.sweep import peer_label
from viz.shared.formats import (
    format_bytes,
    format_count,
    format_flops,
    format_joules,
    format_ms,
    format_ratio,
)
from viz.shared.layout import Card
from viz.shared.provenance import measurement_source

NEAREST = "nearest recording"
SDPA_PEERS = {
    "CUDNN_ATTENTION": "sdpa_cudnn",
    "FLASH_ATTENTION": "sdpa_flash",
    "EFFICIENT_ATTENTION": "sdpa_efficient",
    "MATH": "sdpa_math",
}
"""Peers by their names in torch's SDPBackend."""
ASKED = "torch 2.11.0 with cuDNN 9.19.0 on NVIDIA H100 80GB HBM3, 2026-11-25, of one sequence"
"""Asked there, as `sdpa_choice` asks, of 27 shapes: 12 to 64 query heads, with and without groups, head_dim
64 to 256, 1k to 32k tokens; causal, full and one query each, a window up to 8k. In 16 bits it was cuDNN."""

ASKED_LENGTHS, ASKED_HEAD_DIMS, LONGEST_ASKED_WINDOW = (1024, 32768), (64, 256), 8192


@dataclass(frozen=True)
class Shown:
    """A model at a length, and the measurements that its times may come from."""

    model: Model
    length: int
    batch: int
    live: tuple[Measurement, ...]
    recorded: tuple[Measurement, ...]
    gpu: Gpu

    def costs(self, phase: str, peer: str) -> Costs:
        """What a peer costs in a phase; measurements of this session count before recorded ones."""
        return costs(self.model, self.length, self.batch, phase, peer, self.live + self.recorded)

    def origin(self, estimates: Estimates) -> str:
        """Where a time or an energy is from: "measured", "recorded" or NEAREST."""
        if not estimates or not all(each.is_exact for _, each in estimates):
            return NEAREST
        here = all(each.measurement in self.live for _, each in estimates)
        return "measured" if here else "recorded"


def cards(shown: Shown) -> list[Card]:
    """Scores, KV cache, a prefill and a decoding step."""
    naive, ours = shown.costs("prefill", NAIVE), shown.costs("prefill", OURS)
    times = (_time_card(shown, phase) for phase in TIMES)
    return [_scores_card(shown, naive, ours), _cache_card(shown), *times]


def _scores_card(shown: Shown, naive: Costs, ours: Costs) -> Card:
    theirs, own = naive.layer_memory_bytes, ours.layer_memory_bytes
    words = f"naive attention {format_bytes(theirs)}"
    if theirs > shown.gpu.hbm_bytes:
        words += f", more than an {shown.gpu.name} has"
    explained = (
        "Of one layer, beyond Q, K and V, in a prefill. Naive attention keeps the scores S and the weights "
        "P; FlashAttention keeps only the output O and one number per row, lse."
    )
    return Card("Memory of a layer · modelled", format_bytes(own), words, explained)


def _cache_card(shown: Shown) -> Card:
    model = shown.model
    size = model.cache_bytes(shown.length, shown.batch)
    whole = model.cache_bytes(shown.length, shown.batch, model.q_heads)
    words = "each query head has its own keys"
    if model.kv_heads < model.q_heads:
        words = f"{model.q_heads // model.kv_heads}× less than with {model.q_heads}: {format_bytes(whole)}"
    kept = f" A layer with a window keeps its last {model.window:,} tokens." if model.window else ""
    explained = (
        f"K and V of all layers, kept for the tokens to come: {model.kv_heads} key heads per layer.{kept}"
    )
    return Card("KV cache · modelled", format_bytes(size), words, explained)


WHY = "The result is the same to rounding; the scores never go to memory. Why that is fast"
TIMES = {"prefill": "Prefill", "decode": "Decoding step"}


def _time_card(shown: Shown, phase: str) -> Card:
    naive, ours = shown.costs(phase, NAIVE), shown.costs(phase, OURS)
    if ours.ms is None:
        return Card(f"{TIMES[phase]}, all layers", "–", "not recorded")
    words = f"naive attention {_time(shown, naive)}"
    if naive.ms and naive.ms > ours.ms and _fits(shown, naive):
        words = f"{format_ratio(naive.ms / ours.ms)} faster: {words}"
    explained = (
        f"Attention alone, from Q, K and V to O, of all layers one after the other, on {_device(ours)}."
    )
    return Card(f"{TIMES[phase]} · {shown.origin(ours.times)}", format_ms(ours.ms), words, explained)


def _device(found: Costs) -> str:
    return " and ".join(dict.fromkeys(each.measurement.device.name for _, each in found.times))


def table(shown: Shown) -> str:
    """All numbers of a prefill and a decoding step, as Markdown."""
    rows = ["| all layers | naive attention | FlashAttention |", "|---|---:|---:|"]
    for phase, name in TIMES.items():
        both = [shown.costs(phase, peer) for peer in (NAIVE, OURS)]
        cells = {
            "bytes, modelled": [format_bytes(each.moved_bytes) for each in both],
            "FLOPs, modelled": [format_flops(each.flops).removesuffix("FLOP") for each in both],
            f"time, {shown.origin(both[1].times)}": [_time(shown, each) for each in both],
            f"energy, {shown.origin(both[1].energies)}": [_energy(shown, each) for each in both],
        }
        rows += [f"| {name}: {what} | {' | '.join(texts)} |" for what, texts in cells.items()]
    return "\n".join(rows)


def _fits(shown: Shown, found: Costs) -> bool:
    return not found.ran_out and found.layer_memory_bytes <= shown.gpu.hbm_bytes


def _time(shown: Shown, found: Costs) -> str:
    return _known(shown, found, found.ms, format_ms)


def _energy(shown: Shown, found: Costs) -> str:
    return _known(shown, found, found.joules, format_joules)


def _known(shown: Shown, found: Costs, amount: float | None, words: Callable[[float], str]) -> str:
    if amount is None:
        return "not recorded"
    return words(amount) if _fits(shown, found) else "does not fit"


def nearest_words(shown: Shown) -> list[str]:
    """Which measurements times and energies are from; then, for each, how far its measurement is."""
    sources: dict[str, None] = {}
    far: dict[str, None] = {}
    for phase, name in TIMES.items():
        found = shown.costs(phase, OURS)
        for _, each in found.times + found.energies:
            sources[measurement_source(each.measurement)] = None
            if each.differences:
                far[f"{name}: scaled from {'; '.join(each.differences)}"] = None
    return [f"Times, energies: {'; '.join(sources)}.", *far] if sources else []


def _was_asked(shown: Shown) -> bool:
    """Whether the model lies within what torch was asked about there; see ASKED."""
    model, hides = shown.model, shown.model.window is not None and shown.model.window < shown.length
    most = ASKED_LENGTHS[1] if not hides or "full" in model.kinds else LONGEST_ASKED_WINDOW
    is_known = model.dtype != "float32" and ASKED_HEAD_DIMS[0] <= model.head_dim <= ASKED_HEAD_DIMS[1]
    return is_known and ASKED_LENGTHS[0] <= shown.length <= most


def sdpa_words(shown: Shown, chosen: str = "", where: str = "") -> str:
    """What F.scaled_dot_product_attention picks, how far it is above naive, and these kernels beside it.

    `chosen` is what torch said `where`; without it, what it said when it was asked on another machine.
    """
    if not chosen and not _was_asked(shown):
        return ""
    peer = SDPA_PEERS.get(chosen or "CUDNN_ATTENTION", "")
    where = where or ASKED
    said = [f"`F.scaled_dot_product_attention` picks **{peer_label(peer)}** for this shape ({where})."]
    for phase, name in TIMES.items():
        naive, theirs, ours = (shown.costs(phase, each) for each in (NAIVE, peer, OURS))
        is_window = any(each.problem.mask == "window" for _, each in ours.times)
        if is_window and shown.origin(theirs.times) == NEAREST:
            said.append("A window it takes only as a mask of N × N; at this length none was recorded.")
        elif naive.ms and theirs.ms and ours.ms:
            faster = f"{format_ratio(naive.ms / theirs.ms)} faster than naive attention"
            above = faster if _fits(shown, naive) else "naive attention does not fit"
            beside = f"these kernels take {ours.ms / theirs.ms:.2f} times as long"
            said.append(f"{name}, {shown.origin(theirs.times)}: {above}; {beside}.")
    if shown.model.scores:
        said.append(f"It takes no softcap, sinks or slopes: {shown.model.name} itself calls another kernel.")
    return " ".join(said)


def apart_words(model: Model) -> str:
    """What of its scores is left out here."""
    if not model.apart:
        return ""
    played = " Played and checked with it." if model.scores else ""
    return f"{model.name} has {' and '.join(model.apart)}, which the numbers here leave out.{played}"


def kind_words(model: Model, kind: str, length: int) -> str:
    """A kind of layer in a line: "32 layers, causal"."""
    layers = format_count(model.kinds[kind], "layer")
    if kind == "full":
        return f"**{layers}**: each token sees all before it"
    hides = "" if model.window and model.window < length else "; here it hides none"
    return f"**{layers}**: each token sees the last {model.window:,}{hides}"


def model_line(model: Model) -> str:
    """Heads and types in a line."""
    heads = format_count(model.q_heads, "query head")
    heads += f" over {format_count(model.kv_heads, 'key head')}" if model.kv_heads < model.q_heads else ""
    layers = format_count(len(model.layer_kinds), "layer")
    return f"{layers} · {heads} · head_dim {model.head_dim} · {model.dtype}"


def live_on_gpu(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Those of a GPU, the last one first: a CPU times no kernel."""
    return tuple(each for each in measurements if each.device.backend == "cuda")[::-1]
