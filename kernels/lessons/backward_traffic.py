"""What the backward pass moves, in elements. Modelled.

Square matrices of the standard backward pass, and the inner loops of the tiled ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.algorithms.backward.entry import DK_DV, DQ
from kernels.algorithms.backward_kv_outer.entry import ENTRY as KEY_OUTER
from kernels.algorithms.backward_q_outer.entry import ENTRY as QUERY_OUTER
from kernels.algorithms.chip import FLOAT32_BYTES as STATE_BYTES
from kernels.problem import AttentionProblem
from kernels.trace import Trace


@dataclass(frozen=True)
class SquareAccess:
    """One line of the standard backward pass: the square matrices that it loads from HBM and stores there."""

    line: str
    loads: tuple[str, ...]
    stores: tuple[str, ...]

    @property
    def count(self) -> int:
        """Loads and stores together."""
        return len(self.loads) + len(self.stores)


@dataclass(frozen=True)
class Work:
    """One line of the backward pass and its floating-point operations."""

    line: str
    formula: str
    """LaTeX, for N queries and N keys of d features."""
    flops: int
    recomputed: bool = False
    """Whether standard attention spares it, because it keeps P."""


def backward_work(problem: AttentionProblem) -> tuple[Work, ...]:
    """FLOPs of each line of the backward pass of one head without a mask.

    Without the line that is recomputed 8 T^2 d + 2 T^2 + 2 T d together (Chu, Liu and Lin 2026, "Backward
    Pass: Computational Complexity").
    """
    square, row = problem.q_len * problem.kv_len, problem.q_len * problem.head_dim
    product = 2 * square * problem.head_dim
    return (
        Work("S = Q Kᵀ, again", r"2\,N^2 d", product, recomputed=True),
        Work("dV = Pᵀ dO", r"2\,N^2 d", product),
        Work("dP = dO Vᵀ", r"2\,N^2 d", product),
        Work("D = rowsum(O ∘ dO)", r"2\,N d", 2 * row),
        Work("dS = P ∘ (dP − D)", r"2\,N^2", 2 * square),
        Work("dQ = dS K", r"2\,N^2 d", product),
        Work("dK = dSᵀ Q", r"2\,N^2 d", product),
    )


STANDARD_BACKWARD = (
    SquareAccess("dV = Pᵀ dO", ("P",), ()),
    SquareAccess("dP = dO Vᵀ", (), ("dP",)),
    SquareAccess("dS = P ∘ (dP − D)", ("P", "dP"), ("dS",)),
    SquareAccess("dQ = dS K", ("dS",), ()),
    SquareAccess("dK = dSᵀ Q", ("dS",), ()),
)
"""Chu, Liu and Lin 2026, "Backward Pass: Insufficient Memory", eq 31 and 32: 7 T^2 accesses together."""


def standard_backward_elements(problem: AttentionProblem) -> int:
    """Elements of square matrices that the standard backward pass moves: 7 q_len kv_len per head."""
    accesses = sum(access.count for access in STANDARD_BACKWARD)
    return accesses * problem.batch * problem.q_heads * problem.q_len * problem.kv_len


@dataclass(frozen=True)
class LoopOrder:
    """A loop order of the backward pass, by what one step of its inner loop loads and stores."""

    slug: str
    label: str
    source: str
    q_blocks: tuple[str, ...] = ()
    """Blocks of a query tile's rows by head_dim."""
    kv_blocks: tuple[str, ...] = ()
    """Blocks of a key tile's rows by head_dim."""
    read_back: tuple[str, ...] = ()
    """Sums that a step stores, and therefore loads first. Chu, Liu and Lin 2026 leave these loads out."""
    algorithm: str = ""
    """Key of kernels.algorithms.ALGORITHMS if a kernel of ours has this order."""
    d_each_step: bool | None = None
    """If kernels.lessons.backward_run runs this order: whether D is computed again at every step."""


LOOP_ORDERS = (
    LoopOrder(
        "algorithm 6",
        "query tile outside",
        "Chu, Liu and Lin 2026, algorithm 6",
        kv_blocks=("load K", "load V", "store dK", "store dV"),
        read_back=("load dK", "load dV"),
        algorithm="backward_q_outer",
    ),
    LoopOrder(
        "algorithm 7",
        "key tile outside, D computed again and again",
        "Chu, Liu and Lin 2026, algorithm 7 (a draft)",
        q_blocks=("load Q", "load dO", "load O", "store dQ"),
        read_back=("load dQ",),
        d_each_step=True,
    ),
    LoopOrder(
        "algorithm 8",
        "key tile outside, D computed once",
        "Chu, Liu and Lin 2026, algorithm 8",
        q_blocks=("load Q", "load dO", "store dQ"),
        read_back=("load dQ",),
        algorithm="backward_kv_outer",
        d_each_step=False,
    ),
    LoopOrder(
        "this project",
        "two kernels: only inputs in the loops",
        "kernels/algorithms/backward/launch.py",
        q_blocks=("load Q", "load dO"),
        kv_blocks=("load K", "load V"),
        algorithm="backward",
    ),
)
"""For one head without a mask."""


def inner_loop_elements(order: LoopOrder, problem: AttentionProblem, read_back: bool) -> int:
    """Elements that the inner loop moves over the whole pass of one head.

    `read_back` adds the sums that it loads before it stores them. With T_r query tiles, each block of key
    rows adds T_r kv_len head_dim elements; with T_c key tiles, each block of query rows adds
    T_c q_len head_dim. Chu, Liu and Lin 2026 give less: 4 T_r |J| d is for one key tile of algorithm 6,
    and 3 T_c |I| d for one query tile of algorithm 8.
    """
    per_kv_block = problem.q_tiles * problem.kv_len * problem.head_dim
    per_q_block = problem.kv_tiles * problem.q_len * problem.head_dim
    elements = len(order.q_blocks) * per_q_block + len(order.kv_blocks) * per_kv_block
    if read_back:
        elements += len(order.read_back) * (per_q_block if order.q_blocks else per_kv_block)
    return elements


def counted_inner_loop_elements(trace: Trace) -> int:
    """What the inner loop of a traced run moved, from the bytes that its loads and stores asked for.

    For the algorithms of LOOP_ORDERS.
    """
    read = dict(zip(trace.tensors, trace.tensor_bytes_read.T, strict=True))
    written = dict(zip(trace.tensors, trace.tensor_bytes_written.T, strict=True))
    size = trace.problem.itemsize
    for entry, streamed, summed in (
        (QUERY_OUTER, ("K", "V"), ("dK", "dV")),
        (KEY_OUTER, ("Q", "dO"), ("dQ",)),
    ):
        if trace.algorithm == entry.name:
            loops = trace.kernel == trace.kernels.index(entry.kernels[-1].name)
            inputs = sum(int(read[name][loops].sum()) for name in streamed)
            sums = sum(int((read[name] + written[name])[loops].sum()) for name in summed)
            return inputs // size + sums // STATE_BYTES
    dk_dv, dq = (trace.kernel == trace.kernels.index(name) for name in (DK_DV.name, DQ.name))
    queries = sum(int(read[name][dk_dv].sum()) for name in ("Q", "dO"))
    keys = sum(int(read[name][dq].sum()) for name in ("K", "V"))
    return (queries + keys) // size
