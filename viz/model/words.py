"""The cards, the table and the sentences of a model's costs. Pure: no streamlit."""

from collections.abc import Callable
from dataclasses import dataclass

from kernels.device.gpus import Gpu
from kernels.measure.measurement import Measurement
from kernels.measure.nearest import NAIVE
from kernels.models.cost import OURS, Costs, Estimates, costs
from kernels.models.model import Model
from viz.shared.formats import (
    format_bytes,
    format_count,
    format_error,
    format_flops,
    format_joules,
    format_ms,
    format_ratio,
)
from viz.shared.layout import Card
from viz.shared.provenance import measurement_source
from viz.shared.runs import Run
from viz.shared.words import Words

WORDS = Words(__file__)
NEAREST = "nearest recording"
SDPA = "sdpa_cudnn"
"""cuDNN's kernel; `words.md` says for which shapes F.scaled_dot_product_attention picked it."""


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


def result(shown: Shown) -> str:
    sdpa, ours, naive = (shown.costs("prefill", each) for each in (SDPA, OURS, NAIVE))
    is_known = not shown.model.scores and _sdpa_has(shown, "prefill")
    ways = [(sdpa, "cuDNN")] * is_known + [(ours, "the kernel here"), (naive, "standard attention")]
    times = [f"{format_ms(each.ms)} by {way}" for each, way in ways if each.ms and _fits(shown, each)]
    memory = format_ratio(naive.layer_memory_bytes / ours.layer_memory_bytes)
    said = {"memory": memory, "times": ", ".join(times), "origin": shown.origin(ours.times)}
    return WORDS("times" if times else "result", **said)


def cards(shown: Shown) -> list[Card]:
    return [_scores_card(shown), _cache_card(shown), *(_time_card(shown, phase) for phase in TIMES)]


def _scores_card(shown: Shown) -> Card:
    theirs, own = (shown.costs("prefill", each).layer_memory_bytes for each in (NAIVE, OURS))
    words = f"standard attention {format_bytes(theirs)}"
    if theirs > shown.gpu.hbm_bytes:
        words += f", more than an {shown.gpu.name} has"
    return Card("Attention's memory, per layer · modelled", format_bytes(own), words, WORDS("scores"))


def _cache_card(shown: Shown) -> Card:
    model = shown.model
    size = model.cache_bytes(shown.length, shown.batch)
    whole = model.cache_bytes(shown.length, shown.batch, model.q_heads)
    words = "each query head has its own keys"
    if model.kv_heads < model.q_heads:
        words = f"grouped queries: {model.q_heads // model.kv_heads}× less than {format_bytes(whole)}"
    window = f" {WORDS('window', window=model.window)}" if model.window else ""
    explained = WORDS("cache", kv_heads=model.kv_heads, window=window)
    return Card("KV cache · modelled", format_bytes(size), words, explained)


TIMES = {"prefill": "Prefill (prompt)", "decode": "Decoding (new token)"}


def _time_card(shown: Shown, phase: str) -> Card:
    naive, ours = shown.costs(phase, NAIVE), shown.costs(phase, OURS)
    name = f"{TIMES[phase]}, attention alone"
    if ours.ms is None:
        return Card(name, "–", "not recorded")
    words = f"standard attention {_known(shown, naive, naive.ms, format_ms)}"
    devices = dict.fromkeys(each.measurement.device.name for _, each in ours.times)
    explained = WORDS("time", device=" and ".join(devices))
    return Card(f"{name} · {shown.origin(ours.times)}", format_ms(ours.ms), words, explained)


def table(shown: Shown) -> str:
    """Standard attention, cuDNN in PyTorch (see `sdpa_words`; "–" if it has no numbers), and ours."""
    rows = []
    for phase, name in TIMES.items():
        found, has_sdpa = [shown.costs(phase, each) for each in (NAIVE, SDPA, OURS)], _sdpa_has(shown, phase)
        flops = [format_flops(each.flops).removesuffix("FLOP") for each in found]
        times = [_known(shown, each, each.ms, format_ms) for each in found]
        energies = [_known(shown, each, each.joules, format_joules) for each in found]
        cells = {
            "bytes, modelled": [format_bytes(each.moved_bytes) for each in found],
            "FLOPs, modelled": flops,
            f"time, {shown.origin(found[2].times)}": times,
            f"energy above idle, {shown.origin(found[2].energies)}": energies,
        }
        for what, (naive, sdpa, ours) in cells.items():
            known = sdpa if has_sdpa else "–"
            rows.append({"phase": name, "what": what, "naive": naive, "sdpa": known, "ours": ours})
    return WORDS.rows("table", rows)


def _sdpa_has(shown: Shown, phase: str) -> bool:
    """Whether cuDNN has numbers: it takes 16 bits, and a window only as a mask, if that was recorded."""
    sdpa, ours = (shown.costs(phase, each) for each in (SDPA, OURS))
    is_window = any(each.problem.mask == "window" for _, each in ours.times)
    return shown.model.dtype != "float32" and not (is_window and shown.origin(sdpa.times) == NEAREST)


def _fits(shown: Shown, found: Costs) -> bool:
    return not found.ran_out and found.layer_memory_bytes <= shown.gpu.hbm_bytes


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


def sdpa_words(shown: Shown) -> str:
    """What cuDNN has to do with SDPA, and where it has no numbers."""
    said = [WORDS("picked")]
    if not all(_sdpa_has(shown, phase) for phase in TIMES):
        said.append(WORDS("without sdpa"))
    if shown.model.scores:
        said.append(WORDS("scores apart", name=shown.model.name))
    return " ".join(said)


def apart_words(model: Model) -> str:
    if not model.apart:
        return ""
    played = " Played and checked with it." if model.scores else ""
    return WORDS("apart", model=model, apart=" and ".join(model.apart), played=played)


def kind_words(model: Model, kind: str, length: int) -> str:
    layers = format_count(model.kinds[kind], "layer")
    if kind == "full":
        return f"**{layers}**: each token sees all before it"
    hides = "" if model.window and model.window < length else "; here it hides none"
    return f"**{layers}**: each token sees the last {model.window:,}{hides}"


def exact_words(head: Run) -> str:
    """How exact the recorded run of a head is."""
    errors = {"error": format_error(head.report.max_error), "allowed": format_error(head.report.tolerance)}
    return WORDS("exact", origin=head.origin, **errors)


def model_line(model: Model) -> str:
    heads = format_count(model.q_heads, "query head")
    heads += f" over {format_count(model.kv_heads, 'key head')}" if model.kv_heads < model.q_heads else ""
    layers = format_count(len(model.layer_kinds), "layer")
    return f"{layers} · {heads} · head_dim {model.head_dim} · {model.dtype}"
