"""The backward pass: its work, its loop orders by formula, and what a kernel's inner loop moved.

One head, no mask. Algorithms and equations given by number alone are those of Chu, Liu and Lin 2026.
"""

import functools
from collections import Counter
from dataclasses import dataclass

import numpy as np

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.chip import FLOAT32_BYTES, row_bytes, sum_row_bytes
from kernels.problem import AttentionProblem
from kernels.problem.inputs import draw_inputs
from kernels.trace import Trace
from kernels.traffic.modelled import LSE_BYTES
from viz.learn.softmax.maths import log_sum_exp
from viz.learn.tiling.maths import span, tiles_of


def backward_work(problem: AttentionProblem) -> dict[str, int]:
    """FLOPs of a product, D, dS; of the standard pass, 8 T^2 d + 2 T^2 + 2 T d; of all with S again."""
    square, row_sums = problem.q_len * problem.kv_len, 2 * problem.q_len * problem.head_dim
    product, scores = 2 * square * problem.head_dim, 2 * square
    standard = 4 * product + scores + row_sums
    parts = {"product": product, "row_sums": row_sums, "scores": scores}
    return parts | {"standard": standard, "all": product + standard}


@dataclass(frozen=True)
class LoopOrder:
    """A loop order of the backward pass, by what one step of its inner loop loads and stores."""

    label: str
    color: str
    q_blocks: tuple[str, ...] = ()
    """Blocks of a query tile's rows by head_dim."""
    kv_blocks: tuple[str, ...] = ()
    """Blocks of a key tile's rows by head_dim."""
    algorithm: str = ""
    """Key of kernels.algorithms.ALGORITHMS if a kernel of ours has this order; "" for the draft."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """All that a step moves."""
        return self.q_blocks + self.kv_blocks

    def requested_bytes(self, problem: AttentionProblem) -> int:
        """Of the whole pass, modelled. The draft as one kernel: dQ in float32, and O at every step, not D."""
        if self.algorithm:
            return ALGORITHMS[self.algorithm].requested_bytes(problem)
        row = row_bytes(problem)
        step = 3 * row + 2 * sum_row_bytes(problem) + LSE_BYTES
        return 4 * problem.kv_len * row + problem.q_len * problem.kv_tiles * step

    def elements(self, problem: AttentionProblem) -> int:
        """Elements that the inner loop moves over the whole pass, with the sums that are read back.

        Each block of key rows is moved once per query tile, each block of query rows once per key tile. The
        paper gives less: 4 T_r |J| d is for one key tile of algorithm 6, 3 T_c |I| d for one query tile of
        algorithm 8, both without the sums read back.
        """
        keys, queries = problem.q_tiles * problem.kv_len, problem.kv_tiles * problem.q_len
        return (len(self.kv_blocks) * keys + len(self.q_blocks) * queries) * problem.head_dim


LOOP_ORDERS = (
    LoopOrder(
        "query outside (alg. 6)",
        "query",
        kv_blocks=("load K", "load V", "store dK", "store dV", "load dK", "load dV"),
        algorithm="backward_q_outer",
    ),
    LoopOrder(
        "key outside, draft (alg. 7)",
        "value",
        q_blocks=("load Q", "load dO", "load O", "store dQ", "load dQ"),
    ),
    LoopOrder(
        "key outside (alg. 8)",
        "value",
        q_blocks=("load Q", "load dO", "store dQ", "load dQ"),
        algorithm="backward_kv_outer",
    ),
    LoopOrder(
        "our two kernels",
        "flash",
        q_blocks=("load Q", "load dO"),
        kv_blocks=("load K", "load V"),
        algorithm="backward",
    ),
)
"""The draft computes D again and again. A stored sum is loaded first, which the paper leaves out."""
QUERY_OUTER, DRAFT, KEY_OUTER, TWO_KERNELS = LOOP_ORDERS

MOVED_IN_LOOP = {
    "_attn_bwd_q_outer": ("K", "V", "dK", "dV"),
    "_attn_bwd_kv_outer": ("Q", "dO", "dQ"),
    "_attn_bwd_dk_dv": ("Q", "dO"),
    "_attn_bwd_dq": ("K", "V"),
}
"""Kernel -> the tensors whose blocks its inner loop moves. Of these, the gradients are sums in float32."""


def counted_inner_loop_elements(trace: Trace) -> int:
    """What the inner loops of a traced run of LOOP_ORDERS moved, from the bytes that they asked for."""
    moved = dict(zip(trace.tensors, (trace.tensor_bytes_read + trace.tensor_bytes_written).T, strict=True))
    elements = 0
    for index, kernel in enumerate(trace.kernels):
        for name in MOVED_IN_LOOP.get(kernel, ()):
            size = FLOAT32_BYTES if name in ("dQ", "dK", "dV") else trace.problem.itemsize
            elements += int(moved[name][trace.kernel == index].sum()) // size
    return elements


@dataclass(frozen=True, eq=False)
class DraftRun:
    """What a run of the draft moved, counted at its loads and stores, and the gradients that it gave."""

    bytes_moved: int
    elements_in_loop: int
    gradients: dict[str, np.ndarray]
    """dQ, dK and dV, (rows, head_dim), float64."""


MOST_STEPS, MOST_FLOPS = 2048, 2e9
"""A run of at most so many steps and FLOPs takes about a second."""


@functools.lru_cache(maxsize=8)
def draft_run(problem: AttentionProblem) -> DraftRun | None:
    """The draft (algorithm 7), tile by tile in NumPy. None if that takes too long for a page."""
    flops = 10 * problem.q_len * problem.kv_len * problem.head_dim
    if problem.q_tiles * problem.kv_tiles > MOST_STEPS or flops > MOST_FLOPS:
        return None
    slow = dict(zip("QKV", (array[0, 0].astype(np.float64) for array in draw_inputs(problem)), strict=True))
    slow |= {f"d{name}": np.zeros_like(array) for name, array in slow.items()}
    scores = slow["Q"] @ slow["K"].T * problem.scale
    slow["lse"] = log_sum_exp(scores)
    slow["O"] = np.exp(scores - slow["lse"][:, None]) @ slow["V"]
    slow["dO"] = np.random.default_rng((problem.seed, 1)).standard_normal(slow["Q"].shape)
    moved: Counter[str] = Counter()

    def load(name: str, rows: slice) -> np.ndarray:
        moved[name] += slow[name][rows].size
        return slow[name][rows]

    def store(name: str, rows: slice, values: np.ndarray) -> None:
        moved[name] += values.size
        slow[name][rows] = values

    for keys in (span(j, problem.block_n) for j in range(problem.kv_tiles)):
        key, value = load("K", keys), load("V", keys)
        d_key, d_value = np.zeros_like(key), np.zeros_like(value)
        for rows in (span(i, problem.block_m) for i in range(problem.q_tiles)):
            query, d_output, output, lse = (load(name, rows) for name in ("Q", "dO", "O", "lse"))
            weights = np.exp(query @ key.T * problem.scale - lse[:, None])
            d = (output * d_output).sum(axis=1, keepdims=True)
            d_scores = problem.scale * weights * (d_output @ value.T - d)
            store("dQ", rows, load("dQ", rows) + d_scores @ key)
            d_key += d_scores.T @ query
            d_value += weights.T @ d_output
        store("dK", keys, d_key)
        store("dV", keys, d_value)
    sizes = {name: FLOAT32_BYTES if name in ("dQ", "lse") else problem.itemsize for name in moved}
    return DraftRun(
        sum(count * sizes[name] for name, count in moved.items()),
        sum(moved[name] for name in ("Q", "dO", "O", "dQ")),
        {name: slow[name] for name in ("dQ", "dK", "dV")},
    )


def row_wise_backward(problem: AttentionProblem, memory_bytes: int) -> tuple[int, int]:
    """(rows at once, bytes) of algorithm 5; (0, 0) if not one row of P and dP fits.

    All rows, and each matrix once, if eight (N, d) matrices and two rows of S fit; else as many rows as fit
    (see eq 70), with K and V in, and dK and dV in and out, for every block of rows (eq 65, 66).
    """
    length, row = problem.q_len, row_bytes(problem)
    memory = memory_bytes // problem.itemsize
    if 8 * length * problem.head_dim + 2 * length <= memory:
        return length, 8 * length * row
    rows = min(memory // (2 * length), length)
    times = tiles_of(length, rows) if rows else 0
    return rows, bool(rows) * length * (4 * row + times * (2 * row + 4 * sum_row_bytes(problem)))
