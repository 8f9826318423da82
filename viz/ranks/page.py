"""Several GPUs: a sequence that is shared out over ranks, played rank by rank."""

import streamlit as st

from kernels.measure.ranks import LONGEST_ALONE
from kernels.problem import AttentionProblem
from kernels.problem.ranks import LAYOUTS, divisor_of
from kernels.recordings import recorded_document, recorded_ranks
from kernels.trace.ranks import RanksTrace
from kernels.worker.requests import RanksRequest
from viz.player.component import show_player
from viz.player.ranks import LABELS, ranks_data, title_of
from viz.ranks.figures import ideal_figure
from viz.ranks.worlds import worlds_panel
from viz.shared import runs, theme
from viz.shared.formats import format_length
from viz.shared.layout import colors, header, plot, segments
from viz.shared.link import UrlField, takes_from_link
from viz.shared.problem_form import by_name
from viz.shared.provenance import library_versions
from viz.shared.waiting import asked_job, result_of
from viz.shared.words import Words

WORDS = Words(__file__)
NONE = "none"
RECORDED, HERE = "Recorded on 4 GPUs", "Run here"
WAYS = {f"ring.{layout}": ("ring", layout) for layout in LAYOUTS} | {
    f"{method}.zigzag": (method, "zigzag") for method in ("all_gather", "all_to_all")
}
BACKWARD = "backward"
WAY_LABELS = {name: f"{LABELS[method]}, {layout}" for name, (method, layout) in WAYS.items()}
WAY_LABELS |= {NONE: "nothing", BACKWARD: "Ring, zigzag, backward"}
FIRST = UrlField("way", "ring.zigzag", (*WAYS, BACKWARD))
SECOND = UrlField("against", "ring.contiguous", (*WAYS, NONE))
FIRST_NUMBER, MOST_RANKS, MOST_HEADS = 4, 8, 32
MASKS = ("causal", "full")
MOST_TOKENS = {"interpreter": 1024, "cuda": 1 << 17}
# Seconds per call of a kernel, of which each way makes one per pair of ranks. Measured in the interpreter on
# two cores, 64 to 1,024 tokens: 0.06 to 0.21.
CALL_S = 0.2


def recorded_traces(first: str, second: str) -> list[RanksTrace]:
    recorded = recorded_ranks()
    names = [f"{first}.forward", f"{second}.forward"]
    if first == BACKWARD:
        names = ["ring.zigzag.backward"]
    return [recorded[name] for name in names if name in recorded]


def live_traces(store: runs.RunStore, backend: str, first: str, second: str) -> list[RanksTrace]:
    """Runs on ranks of this machine; shows progress and failures instead while there are none."""
    on_gpu = backend == "cuda"
    most = MOST_TOKENS["cuda" if on_gpu else "interpreter"]
    places = st.columns(4)
    ranks = places[0].number_input("Ranks", 2, MOST_RANKS, FIRST_NUMBER, key="ranks", bind="query-params")
    step = divisor_of(ranks, "zigzag")
    tokens = places[1].number_input(
        "Tokens", step, most, 16 * step, step, key="tokens", bind="query-params", help=f"multiples of {step}"
    )
    heads = places[2].number_input("Heads", 1, MOST_HEADS, FIRST_NUMBER, key="heads", bind="query-params")
    mask = places[3].selectbox("Mask", MASKS, key="mask", bind="query-params")
    length, head_dim = int(tokens), 64 if on_gpu else 16
    problem = AttentionProblem(
        q_heads=heads, kv_heads=heads, q_len=length, kv_len=length, head_dim=head_dim, mask=mask
    )
    direction = BACKWARD if first == BACKWARD else "forward"
    chosen = ["ring.zigzag"] if first == BACKWARD else [name for name in (first, second) if name != NONE]
    ways = tuple(WAYS[name] for name in dict.fromkeys(chosen))
    request = RanksRequest(problem, ranks, ways, direction)
    seconds = CALL_S * ranks**2 * len(ways)
    job = asked_job(store, request, seconds, f"Run it on {ranks} ranks", holder="ranks")
    found = result_of(store, job, "ranks")
    return list(found) if found else []


def show_measured() -> None:
    """How close each recorded method comes to so many times one GPU."""
    times = recorded_document("ranks").ranks
    if not times:
        return
    first = times[0]
    st.subheader(f"How close to {first.ranks} times one GPU", anchor=False)
    direction = segments("Direction", ("forward", BACKWARD), "direction")
    plot(ideal_figure(times, direction, colors()), key="ideal")
    st.markdown(WORDS("ideal", problem=first.problem, longest=format_length(LONGEST_ALONE)))
    versions = library_versions(first.device)
    st.caption(f"Recorded on {first.ranks} {first.device.name}, {first.recorded_at[:10]}, {versions}.")


def show() -> None:
    store = runs.run_store()
    backend = runs.backend(store)
    header("Several GPUs", store)
    st.markdown(WORDS("start"))
    left, right, source_place = st.columns([2, 2, 2], vertical_alignment="bottom")
    first = by_name(left, "Watch", FIRST, WAY_LABELS)
    second = NONE if first == BACKWARD else by_name(right, "Against", SECOND, WAY_LABELS)
    with source_place:
        source = segments("Runs", (RECORDED, HERE), "source") if store else RECORDED
    if store and source == HERE:
        traces = live_traces(store, backend, first, second)
    else:
        traces = recorded_traces(first, second)
    if traces:
        key = " ".join(map(title_of, traces))
        show_player(ranks_data(traces, source == RECORDED), f"ranks {source} {key}", {"plays": "yes"})
    show_measured()
    worlds_panel()
    st.caption(theme.ABOUT_NUMBERS)


takes_from_link(
    *(FIRST, SECOND, UrlField("mask", MASKS[0], MASKS), "tokens", "source", "direction", "worlds_"),
    UrlField("ranks", FIRST_NUMBER, range(2, MOST_RANKS + 1)),
    UrlField("heads", FIRST_NUMBER, range(1, MOST_HEADS + 1)),
)
show()
