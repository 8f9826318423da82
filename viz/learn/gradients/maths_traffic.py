"""The backward pass: its work, its loop orders by formula, and the key-outer ones tile by tile in NumPy.

One head, no mask. Algorithms and equations given by number alone are those of Chu, Liu and Lin 2026.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels.algorithms.chip import FLOAT32_BYTES, row_bytes, sum_row_bytes
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.traffic.modelled import LSE_BYTES
from viz.learn.softmax.maths import first_head, log_sum_exp
from viz.learn.tiling.maths import span, tiles_of


def backward_work(problem: AttentionProblem) -> dict[str, int]:
    """FLOPs of a product, of D and of dS; of the standard pass, 8 T^2 d + 2 T^2 + 2 T d; and with S again.

    Section "Backward Pass: Computational Complexity".
    """
    square, row_sums = problem.q_len * problem.kv_len, 2 * problem.q_len * problem.head_dim
    product, scores = 2 * square * problem.head_dim, 2 * square
    standard = 4 * product + scores + row_sums
    parts = {"product": product, "row_sums": row_sums, "scores": scores}
    return parts | {"standard": standard, "all": product + standard}


@dataclass(frozen=True)
class LoopOrder:
    """A loop order of the backward pass, by what one step of its inner loop loads and stores."""

    slug: str
    label: str
    q_blocks: tuple[str, ...] = ()
    """Blocks of a query tile's rows by head_dim."""
    kv_blocks: tuple[str, ...] = ()
    """Blocks of a key tile's rows by head_dim."""
    algorithm: str = ""
    """Key of kernels.algorithms.ALGORITHMS if a kernel of ours has this order."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """All that a step moves."""
        return self.q_blocks + self.kv_blocks

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
        "algorithm 6",
        "query tile outside",
        kv_blocks=("load K", "load V", "store dK", "store dV", "load dK", "load dV"),
        algorithm="backward_q_outer",
    ),
    LoopOrder(
        "algorithm 7",
        "key tile outside, D computed again and again",
        q_blocks=("load Q", "load dO", "load O", "store dQ", "load dQ"),
    ),
    LoopOrder(
        "algorithm 8",
        "key tile outside, D computed once",
        q_blocks=("load Q", "load dO", "store dQ", "load dQ"),
        algorithm="backward_kv_outer",
    ),
    LoopOrder(
        "this project",
        "two kernels: only inputs in the loops",
        q_blocks=("load Q", "load dO"),
        kv_blocks=("load K", "load V"),
        algorithm="backward",
    ),
)
"""Algorithm 7 is a draft. A sum that a step stores is loaded first; the paper leaves these loads out."""
QUERY_OUTER, DRAFT, KEY_OUTER, TWO_KERNELS = LOOP_ORDERS

MOVED_IN_LOOP = {
    "_attn_bwd_q_outer": ("K", "V", "dK", "dV"),
    "_attn_bwd_kv_outer": ("Q", "dO", "dQ"),
    "_attn_bwd_dk_dv": ("Q", "dO"),
    "_attn_bwd_dq": ("K", "V"),
}
"""Kernel -> the tensors whose blocks its inner loop moves. Of these, the gradients are sums in float32."""


def counted_elements(problem: AttentionProblem, traces: Mapping[str, Trace]) -> dict[str, int]:
    """Slug of a loop order -> elements that its inner loop moved, counted.

    By a kernel of ours, of which `traces` has the traces by algorithm; or by a tile-by-tile run in NumPy.
    """
    counted = {}
    for order in LOOP_ORDERS:
        if order.algorithm in traces:
            counted[order.slug] = counted_inner_loop_elements(traces[order.algorithm])
        elif order in (DRAFT, KEY_OUTER) and can_run(problem):
            counted[order.slug] = sum(key_outer_run(problem, order).elements_in_loop.values())
    return counted


def counted_inner_loop_elements(trace: Trace) -> int:
    """What the inner loops of a traced run moved, from the bytes that their loads and stores asked for.

    For the algorithms of LOOP_ORDERS.
    """
    moved = dict(zip(trace.tensors, (trace.tensor_bytes_read + trace.tensor_bytes_written).T, strict=True))
    elements = 0
    for index, kernel in enumerate(trace.kernels):
        for name in MOVED_IN_LOOP.get(kernel, ()):
            size = FLOAT32_BYTES if name in ("dQ", "dK", "dV") else trace.problem.itemsize
            elements += int(moved[name][trace.kernel == index].sum()) // size
    return elements


def draft_bytes(problem: AttentionProblem) -> int:
    """Algorithm 7 as one kernel: dQ through HBM in float32, and O loaded at every step instead of D."""
    step = 3 * row_bytes(problem) + 2 * sum_row_bytes(problem) + LSE_BYTES
    return 4 * problem.kv_len * row_bytes(problem) + problem.q_len * problem.kv_tiles * step


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


MOST_STEPS = 2048
MOST_FLOPS = 2e9
"""A run of at most so many steps and FLOPs takes about a second."""
FLOAT32 = ("dQ", "lse", "D")
"""What waits in HBM in float32; everything else has the type of the inputs."""


@dataclass(frozen=True, eq=False)
class KeyOuterRun:
    """What one run moved, and the gradients that it gave."""

    bytes_moved: int
    """Over the whole pass."""
    elements_in_loop: dict[str, int]
    """By the order's blocks, such as "load dQ"; without lse and D, one number per row."""
    gradients: dict[str, np.ndarray]
    """dQ, dK and dV, (rows, head_dim), float64."""


def can_run(problem: AttentionProblem) -> bool:
    """Whether the run is short enough for a page."""
    flops = 10 * problem.q_len * problem.kv_len * problem.head_dim
    return problem.q_tiles * problem.kv_tiles <= MOST_STEPS and flops <= MOST_FLOPS


def inputs_of(problem: AttentionProblem) -> dict[str, np.ndarray]:
    """Q, K, V and dO of the problem's seed, with O and lse of the forward pass; float64, one head."""
    query, key, value = first_head(problem)
    scores = query @ key.T * problem.scale
    lse = log_sum_exp(scores)
    output = np.exp(scores - lse[:, None]) @ value
    d_output = np.random.default_rng((problem.seed, 1)).standard_normal(query.shape)
    return {"Q": query, "K": key, "V": value, "O": output, "dO": d_output, "lse": lse}


@functools.lru_cache(maxsize=8)
def key_outer_run(problem: AttentionProblem, order: LoopOrder) -> KeyOuterRun:
    """KEY_OUTER, or DRAFT, which loads O at every step to compute D again.

    dQ waits in HBM and travels at every step.
    """
    arrays = inputs_of(problem) | {"D": np.zeros(problem.q_len)}
    arrays |= {f"d{name}": np.zeros_like(arrays[name]) for name in "QKV"}
    moved: Counter[str] = Counter()

    def load(name: str, rows: slice) -> np.ndarray:
        moved[f"load {name}"] += arrays[name][rows].size
        return arrays[name][rows]

    def store(name: str, rows: slice, values: np.ndarray) -> None:
        moved[f"store {name}"] += values.size
        arrays[name][rows] = values

    q_tiles = [span(i, problem.block_m) for i in range(problem.q_tiles)]
    if order is KEY_OUTER:
        for rows in q_tiles:
            store("D", rows, (load("O", rows) * load("dO", rows)).sum(axis=1))
    before = moved.copy()
    for j in range(problem.kv_tiles):
        keys = span(j, problem.block_n)
        key, value = load("K", keys), load("V", keys)
        d_key, d_value = np.zeros_like(key), np.zeros_like(value)
        for rows in q_tiles:
            query, d_output, lse = (load(name, rows) for name in ("Q", "dO", "lse"))
            d = load("D", rows) if order is KEY_OUTER else (load("O", rows) * d_output).sum(axis=1)
            weights = np.exp(query @ key.T * problem.scale - lse[:, None])
            d_scores = problem.scale * weights * (d_output @ value.T - d[:, None])
            store("dQ", rows, load("dQ", rows) + d_scores @ key)
            d_key += d_scores.T @ query
            d_value += weights.T @ d_output
        store("dK", keys, d_key)
        store("dV", keys, d_value)
    sizes = {name: FLOAT32_BYTES if name in FLOAT32 else problem.itemsize for name in arrays}
    bytes_moved = sum(count * sizes[what.split()[1]] for what, count in moved.items())
    in_loop = {block: moved[block] - before[block] for block in order.q_blocks}
    return KeyOuterRun(bytes_moved, in_loop, {name: arrays[name] for name in ("dQ", "dK", "dV")})
