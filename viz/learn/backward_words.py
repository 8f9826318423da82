"""What both chapters on the backward pass say of its loop orders, from the numbers at hand."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.algorithms import ALGORITHMS
from kernels.lessons.backward_run import can_run, key_outer_run
from kernels.lessons.backward_traffic import LOOP_ORDERS, counted_inner_loop_elements, inner_loop_elements
from kernels.problem import AttentionProblem
from viz.learn.comparing import compared
from viz.shared.formats import format_bytes
from viz.shared.runs import Run

BY_SLUG = {order.slug: order for order in LOOP_ORDERS}
QUERY_OUTER, KEY_OUTER = BY_SLUG["algorithm 6"], BY_SLUG["algorithm 8"]


def counted_elements(problem: AttentionProblem, ready: Mapping[str, Run]) -> dict[str, int]:
    """Slug of a loop order -> elements that its inner loop moved, counted.

    By a kernel of ours, of which `ready` has the runs by algorithm; or by a tile-by-tile run in NumPy.
    """
    counted = {}
    for order in LOOP_ORDERS:
        if run := ready.get(order.algorithm):
            counted[order.slug] = counted_inner_loop_elements(run.trace)
        elif order.d_each_step is not None and can_run(problem):
            counted[order.slug] = key_outer_run(problem, order.d_each_step).inner_loop_elements
    return counted


def loop_order_words(problem: AttentionProblem) -> str:
    """Which loop order moves less on these tiles: elements of the inner loops, then bytes of the pass."""
    query, key = (inner_loop_elements(order, problem, read_back=True) for order in (QUERY_OUTER, KEY_OUTER))
    query_bytes, key_bytes = (
        ALGORITHMS[order.algorithm].requested_bytes(problem) for order in (QUERY_OUTER, KEY_OUTER)
    )
    return (
        "**On these tiles** the inner loop of the key-outer order (algorithm 8) moves "
        f"{compared(key, query)} that of the query-outer order (algorithm 6): $4\\,t_k Nd$ = {key:,} "
        f"elements against $6\\,t_q Nd$ = {query:,}, with $t_q$ = {problem.q_tiles:,} query tiles and $t_k$ "
        f"= {problem.kv_tiles:,} key tiles. In bytes, with float32 sums, the whole pass moves "
        f"{compared(key_bytes, query_bytes)} the other ({format_bytes(key_bytes)} against "
        f"{format_bytes(query_bytes)}, modelled)."
    )
