"""Widgets of the Measure page -> Choice.

Each is bound to the URL, and a URL can hold anything: the choice is checked.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.check.case.cases import USERS
from kernels.measure.measurement import DIRECTIONS
from kernels.measure.peers import PEERS
from kernels.measure.series import AXES, SweepView
from kernels.measure.sweep import TOKENS, WIDTH
from kernels.problem import DTYPES, LIMITS, AttentionProblem, InvalidProblem
from viz.shared.kept_problem import keep_measured, open_with_kept
from viz.shared.layout import number_field, segments
from viz.shared.link import is_just_opened, opened_with
from viz.shared.words import Words

ONE_POINT = "one point"
BOTH = "both"
LENGTHS = tuple(1 << power for power in range(7, 17))
HEAD_DIMS = (32, 64, 96, 128, 192, 256)
BATCHES = tuple(1 << power for power in range(7))
RANGES = {"length": LENGTHS, "head_dim": HEAD_DIMS, "batch": BATCHES}
FIRST_RANGES = {"length": (256, 4096), "head_dim": (64, 256), "batch": (1, 16)}
MASKS = ("full", "causal")
LONGEST_ON_CPU = 16384
FIXED_BATCH = "batch"
FIXED_TOKENS = f"{TOKENS:,} tokens"
NOT_OFFERED = ("flash2", "flash3")
"""Peers that only Explore measures: they run with the tiles of its run."""
WORDS = Words(__file__)
MOST = LIMITS["q_heads"][1]
"""Of batch, heads and key heads."""
KEY_HEADS_HELP = "Each serves as many query heads. 0: every query head has its own. "

IN_URL = (
    *("which", "axis", *(f"{axis}_{end}" for axis in RANGES for end in ("from", "to"))),
    *("hd", "len", "masking", "element", "load", "gpu_load", "seqs", "heads", "gpu_heads", "kv", "peers"),
)

Option = TypeVar("Option", str, int)


@dataclass(frozen=True)
class Choice:
    view: SweepView
    axis: str
    """One of kernels.measure.series.AXES, or ONE_POINT; the view's axis is then the length."""
    points: tuple[int, ...]
    """Values on the view's axis that a live sweep measures."""
    directions: tuple[str, ...]
    peers: tuple[str, ...]

    def problems(self, dtype: str) -> list[AttentionProblem]:
        return [self.view.moved_to(x).problem(dtype) for x in self.points]


def measure_controls(backend: str) -> Choice | None:
    """Draw the sidebar. None after showing why the choice is not accepted."""
    on_cpu = backend != "cuda"
    open_with_kept()
    with st.sidebar:
        which = segments("pass", (*DIRECTIONS, BOTH), "which")
        axis = segments("along", (*AXES, ONE_POINT), "axis")
        points = _range(axis, LONGEST_ON_CPU if on_cpu else LENGTHS[-1]) if axis in AXES else ()
        left, right = st.columns(2)
        head_dims, lengths = _with_given(HEAD_DIMS, "hd", "head_dim"), _with_given(LENGTHS, "len", "q_len")
        head_dim = _pick(left, "head_dim", head_dims, 64, "hd") if axis != "head_dim" else 64
        length = _given("len") or 1024
        if axis != "length":
            length = _pick(right, "length", lengths, 1024, "len")
        mask = _pick(left, "mask", MASKS, "full", "masking")
        on_dtype = WORDS("dtype on a CPU") if on_cpu else None
        dtype = _pick(right, "dtype", tuple(DTYPES), "float16", "element", on_dtype)
        view = SweepView(axis if axis in AXES else "length", length, head_dim, dtype, mask)
        view = _with_batch_and_heads(view, on_cpu)
        own = [] if on_cpu else [name for name in USERS if name in PEERS]
        offered = (*own, *(name for name in PEERS if name not in (*NOT_OFFERED, *USERS)))
        peers = _peers(offered)
        if on_cpu and USERS[0] in PEERS:
            st.caption("Your kernel is timed on a GPU alone: the interpreter's time is not the kernel's.")
    directions = DIRECTIONS if which == BOTH else (which,)
    points = (length,) if axis == ONE_POINT else points
    refused = ""
    try:
        problem = view.problem()
    except InvalidProblem as error:
        refused = str(error)
    if not points:
        refused = "“from” must not be larger than “to”. Choose another range."
    elif not (refused or peers):
        refused = f"No peer is chosen. Choose some of {', '.join(map(_short_label, offered))}."
    if refused:
        st.error(refused, icon=":material/error:")
        return None
    chosen = {"head_dim", "mask", "dtype"}  # what has a control, for the other pages
    chosen |= {"q_len", "kv_len"} if axis != "length" or is_just_opened() else set()
    keep_measured(problem, chosen | ({"batch", "q_heads", "kv_heads"} if not view.tokens else set()))
    return Choice(view, axis, points, directions, peers)


def _short_label(peer: str) -> str:
    """A peer's label without what its first comma adds, which the sidebar has no room for."""
    return PEERS[peer].label.partition(",")[0]


def _peers(offered: tuple[str, ...]) -> tuple[str, ...]:
    """The chosen peers; in the URL by their names, on the page by their labels."""
    given = st.query_params.get_all("peers")
    named = [name for name in given if name in offered]
    may_come = (*offered, *(name for name in USERS if name in PEERS), "")  # those of the user's on a GPU
    if any(name not in may_come for name in given):  # what leaves the URL is said not to be accepted
        st.query_params.pop("peers", None)
        if kept := [name for name in given if name in may_come]:
            st.query_params["peers"] = kept
    st.session_state["peers"] = named if named or given == [""] else list(offered)

    def take() -> None:
        st.query_params["peers"] = st.session_state["peers"] or ""

    labels = "\n".join(f"- {PEERS[name].label}" for name in offered)
    return tuple(
        st.multiselect("peers", offered, key="peers", on_change=take, format_func=_short_label, help=labels)
    )


def _pick(
    column: DeltaGenerator,
    label: str,
    options: tuple[Option, ...],
    default: Option,
    key: str,
    help_words: str | None = None,
) -> Option:
    first = options.index(default)
    return column.selectbox(label, options, first, key=key, bind="query-params", help=help_words)


def _with_given(options: tuple[int, ...], key: str, field: str) -> tuple[int, ...]:
    """The options, and the value that the kept problem or the link has, if a problem can have it."""
    given, (low, high) = _given(key), LIMITS[field]
    return tuple(sorted({*options, given})) if low <= given <= high else options


def _given(key: str) -> int:
    """The whole number that the session or the link has by that name; 0 for none."""
    text = str(st.session_state.get(key, opened_with().get(key)))
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def _range(axis: str, longest: int) -> tuple[int, ...]:
    offered = tuple(x for x in RANGES[axis] if axis != "length" or x <= longest)
    first, last = FIRST_RANGES[axis]
    left, right = st.columns(2)
    low = _pick(left, "measure from", offered, first, f"{axis}_from", WORDS("range"))
    high = _pick(right, "to", offered, last, f"{axis}_to")
    return tuple(x for x in offered if low <= x <= high)


def _with_batch_and_heads(view: SweepView, on_cpu: bool) -> SweepView:
    """The view with the chosen batch and heads, or with the token count that fixes both."""
    # The backend may become known after the first run. Keys of its own give each backend its own defaults.
    prefix, first = ("", FIXED_BATCH) if on_cpu else ("gpu_", FIXED_TOKENS)
    with st.expander("Batch and heads"):
        about = WORDS("hold fixed", tokens=TOKENS, width=WIDTH)
        fixed = segments("hold fixed", (FIXED_BATCH, FIXED_TOKENS), f"{prefix}load", first, help=about)
        if fixed == FIXED_TOKENS and view.axis != "batch":
            return replace(view, tokens=TOKENS, width=WIDTH)
        left, right = st.columns(2)
        batch = 1 if view.axis == "batch" else number_field(left, "batch", 1, MOST, 1, "seqs")
        heads = number_field(right, "heads", 1, MOST, 4 if on_cpu else 16, f"{prefix}heads")
        kv_heads = number_field(left, "key heads", 0, MOST, 0, "kv", KEY_HEADS_HELP)
        return replace(view, batch=batch, q_heads=heads, kv_heads=kv_heads)
