"""Where along the keys a kernel goes wrong: the weight that it gives to each group of key or query tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from kernels.check.judge.calls import Calls
from kernels.check.judge.compare import error_map, key_group_probe, worst_heads
from kernels.check.judge.error_maps import ErrorMap
from kernels.check.subject.user_errors import Broken, Refused
from kernels.oracle.rule import Comparison, compare_gradients
from kernels.problem import AttentionProblem, tiles

PLAYER_STEPS = 4096
"""The player draws at most this many steps. Links to longer runs do not name a step."""


def weigh_keys(calls: Calls) -> tuple[tuple[ErrorMap, ...], torch.Tensor | None]:
    """How much of its attention each row gives to each group of key tiles, against float64; and its sum.

    This is one more run, with values that are 1 in the column of their group of keys and 0 elsewhere: O then
    is the weight of each group. It shows at which keys any kernel goes wrong. Empty if it does not run.
    """
    if calls.subject is None or "O" not in calls.got:
        return (), None
    problem, (query, key, value) = calls.case.problem, calls.tensors.inputs
    probe, group = key_group_probe(value, problem.block_n)
    try:
        got, _ = calls.forward((query, key, probe))
    except (Refused, Broken):
        return (), None
    compared = calls.references((query, key, probe)).compare(got)
    found, weights = _weights("weights", got, compared, group, problem.kv_len)
    starts = program_starts(problem, worst_heads(compared.error))
    return (replace(found, first_step=starts),), weights.sum(dim=-1)


def weigh_queries(calls: Calls) -> tuple[ErrorMap, ...]:
    """How much weight the backward pass gives to each key, by groups of query tiles, against float64.

    One more run, with a dO that is 1 in the column of its group of queries: dV then is the weight that the
    queries of each group give to the key, as the backward pass computes it anew. Empty if it does not run.
    """
    if calls.subject is None or "dV" not in calls.got:
        return ()
    problem, inputs = calls.case.problem, calls.tensors.inputs
    probe, group = key_group_probe(calls.tensors.d_out, problem.block_m)
    try:
        d_query, d_key, d_value = calls.gradients(probe)
    except (Refused, Broken):
        return ()
    gradients = (d_query, d_key, d_value)
    compared = compare_gradients(problem, gradients, inputs, probe, scale=calls.scale, band=calls.band)["dV"]
    return (_weights("weights backward", d_value, compared, group, problem.q_len)[0],)


def _weights(
    kind: str, got: torch.Tensor, compared: Comparison, group: int, columns: int
) -> tuple[ErrorMap, torch.Tensor]:
    """The map of weights in groups of so many columns, and the weights themselves in float64."""
    groups = -(-columns // group)
    weights, error = got.double()[..., :groups], compared.error[..., :groups]
    difference = weights - compared.exact[..., :groups]
    found = error_map(kind, error, compared.report.tolerance, None, difference)
    return replace(found, column_step=group, columns=columns), weights


def program_starts(problem: AttentionProblem, heads: torch.Tensor) -> np.ndarray | None:
    """int32 (heads, query tiles): the step of FlashAttention-2's trace at which each tile's program starts.

    A trace orders the programs by head and query tile; a program that visits no tile has one step. None if
    the trace has more than PLAYER_STEPS steps.
    """
    visited = [tiles.visited_tiles(problem, q_tile) for q_tile in range(problem.q_tiles)]
    steps = np.array([max(tile.end - tile.first, 1) for tile in visited])
    if steps.sum() * problem.batch * problem.q_heads > PLAYER_STEPS:
        return None
    starts = np.cumsum(steps) - steps
    return (heads.cpu().numpy()[:, None] * steps.sum() + starts).astype(np.int32)
