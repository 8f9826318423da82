"""The four figures that are read first: error, bytes, time, memory. Pure: no streamlit."""

from collections.abc import Iterable

from kernels.algorithms.standard.entry import ENTRY as STANDARD
from kernels.algorithms.standard.traffic import standard_bytes, standard_requested
from kernels.device.clocks import METHODS
from kernels.measure.measurement import Measurement, PeerResult, ratio_to_naive
from kernels.measure.nearest import estimate
from kernels.measure.peers import PEERS
from kernels.oracle.report import FACTORS, rule_words
from kernels.trace.algorithm import Algorithm
from viz.shared.figures.sweep import short_reason
from viz.shared.formats import format_bytes, format_error, format_ms, format_ratio, plain
from viz.shared.glossary import in_words
from viz.shared.layout import Card
from viz.shared.provenance import library_versions, measurement_source, runner_words
from viz.shared.runs import Run
from viz.shared.words import Words

NO_BREAK = "\N{NO-BREAK SPACE}"
CPU_PEER = "sdpa"
ON_CPU = "Torch on this CPU (our kernel is not timed here)"
TIME, MEMORY = "Time of one call", "Extra memory"
WORDS = Words(__file__)


def four_cards(run: Run, measurement: Measurement | None, other: Run | None = None) -> list[Card]:
    """The cards of a run. Beside a second run, B, they are about A, and compare its bytes with B's."""
    mark = "A: " if other else ""
    cost = _cost_cards(run, measurement, mark)
    return [_error_card(run, mark), _bytes_card(run, mark, other), *cost]


def _error_card(run: Run, mark: str) -> Card:
    label = f"{mark}Largest error of the result · {run.origin}"
    report = run.report
    allowed = f"{'passes' if report.passes else 'FAILS'}: allowed {format_error(report.tolerance)}"
    sampled = " (sampled rows)" if run.trace.sample else ""
    rule = WORDS("error", rule=rule_words(FACTORS[run.algorithm.direction]))
    return Card(label, format_error(report.max_error), allowed + sampled, rule, report.passes)


AGREES = {None: "without a formula", True: "the formula agrees", False: "the formula differs"}


def _bytes_card(run: Run, mark: str, other: Run | None) -> Card:
    """Bytes of the run; those of a sampled one are modelled, and the sample has counted some of them."""
    label = f"{mark}Bytes requested · {'modelled' if run.traffic.modelled else 'counted'}"
    ours, problem, about = run.traffic.total, run.trace.problem, WORDS("requested")
    name, rival = "standard", standard_requested(problem, run.algorithm.direction)
    if other:
        name, rival = "B", other.traffic.total
    compared = less_or_more(rival / ours, f"{name} {format_bytes(rival)}")
    if run.algorithm is STANDARD and not other:
        compared = f"K and V read once: {format_bytes(standard_bytes(problem))}"
    if sample := run.trace.sample:
        about = WORDS("sample", sample=sample.words(problem), counted=run.trace.total_bytes)
        about = f"{about} {WORDS(AGREES[run.traffic.agrees])}"
    return Card(label, format_bytes(ours), compared, about)


def less_or_more(ratio: float, words: str) -> str:
    """How many times less, or more, than the other figure, which the words name."""
    shown = format_ratio(max(ratio, 1 / ratio))
    if shown == format_ratio(1):
        return f"about as much: {words}"
    return f"{shown} {'less' if ratio >= 1 else 'more'}: {words}"


def _cost_cards(run: Run, measurement: Measurement | None, mark: str) -> list[Card]:
    """The two measured cards, by what was timed. That of another algorithm stands beside "not timed"."""
    timed, direction = run.algorithm.timed_as, run.algorithm.direction
    ours = _result(measurement, (timed.peer, CPU_PEER), direction)
    if measurement is None or ours is None or ours.timing is None or ours.peak_extra_bytes is None:
        refused = (ours.refused if ours else None) or "not measured yet"
        return [Card(f"{mark}{what} · {run.origin}", "–", refused) for what in (TIME, MEMORY)]
    on_cpu = ours.peer == CPU_PEER
    whose, why = (ON_CPU, "") if on_cpu else (timed.timing_source, timed.why)
    values = spread_words(ours), format_bytes(ours.peak_extra_bytes)
    if timed.is_another and not on_cpu:
        labels = [f"{mark}{TIME}", f"{mark}{MEMORY}"]
        compared = [f"{whose}, {run.origin}: {value}" for value in values]
        values = "not timed", "not measured"
    else:
        names = [f"{whose}: {what.lower()}" if whose else f"{mark}{what}" for what in (TIME, MEMORY)]
        labels = [f"{name} · {run.origin}" for name in names]
        compared = _compared(measurement, ours)
    about = (why, f"{why} {WORDS('extra memory')}")
    return [Card(*card) for card in zip(labels, values, compared, about, strict=True)]


def _compared(measurement: Measurement, ours: PeerResult) -> list[str]:
    """Time and memory beside those of standard attention; the table below has all others."""
    naive = _result(measurement, ("naive",), ours.direction)
    if naive is ours or naive is None or naive.timing is None or naive.peak_extra_bytes is None:
        return [(naive and naive.refused) or "", ""]
    ratio = naive.peak_extra_bytes / max(ours.peak_extra_bytes or 0, 1)
    memory = less_or_more(ratio, f"standard {format_bytes(naive.peak_extra_bytes)}")
    return [time_with(measurement, ours, naive), memory]


def _result(measurement: Measurement | None, names: tuple[str, ...], direction: str) -> PeerResult | None:
    results = (measurement.result(name, direction) for name in names) if measurement else ()
    return next((result for result in results if result), None)


def time_with(measurement: Measurement, ours: PeerResult, naive: PeerResult) -> str:
    """The time of standard attention, with a ratio if the work and the spread allow one."""
    assert naive.timing
    took = f"standard {format_ms(naive.timing.median_ms)}"
    ratio = ratio_to_naive(ours, naive)
    if ratio is None or measurement.is_mostly_overhead(ours, naive):
        return f"mostly overhead, so no ratio: {took}"
    if not ratio.is_usable or ratio.low <= 1 <= ratio.high:
        return f"no clear difference: {took}"
    low, high = (ratio.low, ratio.high) if ratio.low > 1 else (1 / ratio.high, 1 / ratio.low)
    times = " to ".join(dict.fromkeys(map(format_ratio, (low, high))))
    return f"{times} {'faster' if ratio.low > 1 else 'slower'}: {took}"


def spread_words(result: PeerResult) -> str:
    """A time with half its spread: 15.6 µs ± 2 %. In a narrow card the line breaks before the spread."""
    assert result.timing
    took = format_ms(result.timing.median_ms).replace(" ", NO_BREAK)
    return f"{took} ±{NO_BREAK}{100 * result.timing.spread / 2:.0f}{NO_BREAK}%"


def times_table(measurement: Measurement, direction: str) -> str:
    """A row per implementation: its time and memory, or why it has none. Markdown."""
    rows = []
    for result in (each for each in measurement.results if each.direction == direction):
        time, memory = plain(short_reason(result.refused or "–")), ""
        if result.timing:
            time, memory = spread_words(result), format_bytes(result.peak_extra_bytes or 0)
        cells = {"time": time.replace(" ", NO_BREAK) if memory else time, "memory": memory}
        rows.append({"peer": PEERS[result.peer].label, **cells})
    return WORDS.rows("times", rows)


def timed_words(measurement: Measurement, algorithm: Algorithm) -> str:
    """Which row of the table of times stands for the algorithm; "" if it is the algorithm itself."""
    timed = algorithm.timed_as
    if not timed.timing_source or _result(measurement, (timed.peer,), algorithm.direction) is None:
        return ""
    return f"**{algorithm.label}**: {timed.why} Row “{PEERS[timed.peer].label}”: {timed.timing_source}."


def measurement_words(measurement: Measurement | None, run: Run) -> str:
    """Where the time and memory are from, and what they are not."""
    if measurement is None:
        return "Not measured for this problem yet."
    device = measurement.device
    naive = in_words("standard attention")
    if device.backend == "cuda":
        origin = f"**Recorded** {measurement.recorded_at[:10]}" if run.recorded else "**Measured** here"
        return f"{origin} on {device.name}, {library_versions(device)}: {METHODS['cuda']}. {naive}"
    traced = ""
    if run.seconds:
        traced = f" {WORDS('took', how=runner_words(run.algorithm, run.trace.device), took=run.seconds)}"
    method = METHODS["interpreter"].capitalize()
    return WORDS("timed on a CPU", device=device, method=method, traced=traced, naive=naive)


def on_gpu_words(measurement: Measurement | None, run: Run, recorded: Iterable[Measurement]) -> str:
    """Beside a run that no GPU timed: the recorded times, or those scaled from the nearest recording."""
    if measurement is not None and measurement.device.backend == "cuda":
        return ""
    recorded, direction = tuple(recorded), run.algorithm.direction
    problem = run.trace.problem
    times = {peer: estimate(problem, peer, recorded, direction) for peer in ("ours", "naive")}
    ours, naive = times["ours"], times["naive"]
    if ours is None or naive is None:
        return "No recording is near enough to give a time on a GPU."
    how, far = "**Recorded**", ""
    if not ours.is_exact:
        how, far = "Scaled from the **nearest recording**", f": {'; '.join(ours.differences)}"
    both = f"our kernels {format_ms(ours.amount)}, standard attention {format_ms(naive.amount)}"
    return f"On a GPU: {both}. {how}, {plain(measurement_source(ours.measurement) + far)}."
