"""Where along the keys a kernel goes wrong: the weight that it gives to each group of key or query tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from kernels.check.compare import error_map, key_group_probe, worst_heads
from kernels.check.error_maps import ErrorMap
from kernels.check.runs import Runs
from kernels.check.user_errors import Broken, Refused
from kernels.oracle.rule import compare_gradients
from kernels.problem import AttentionProblem, tiles

PLAYER_STEPS = 4096
"""The player draws at most this many steps. Links to longer runs do not name a step."""


def weigh_keys(runs: Runs) -> tuple[tuple[ErrorMap, ...], torch.Tensor | None]:
    """How much of its attention each row gives to each group of key tiles, against float64; and its sum.

    This is one more run, with values that are 1 in the column of their group of keys and 0 elsewhere: O then
    is the weight of each group. It shows at which keys any kernel goes wrong. Empty if it does not run.
    """
    if runs.subject is None or "O" not in runs.got:
        return (), None
    problem, (query, key, value) = runs.case.problem, runs.tensors.inputs
    probe, group = key_group_probe(value, problem.block_n)
    try:
        got, _ = runs.forward((query, key, probe))
    except (Refused, Broken):
        return (), None
    comparison = runs.references((query, key, probe)).compare(got)
    groups = -(-problem.kv_len // group)
    error, difference = comparison.error[..., :groups], (got.double() - comparison.exact)[..., :groups]
    by_column = error_map("weights", error, comparison.report.tolerance, None, difference)
    starts = program_starts(problem, worst_heads(error))
    found = replace(by_column, column_step=group, columns=problem.kv_len, first_step=starts)
    return (found,), got[..., :groups].double().sum(dim=-1)


def weigh_queries(runs: Runs) -> tuple[ErrorMap, ...]:
    """How much weight the backward pass gives to each key, by groups of query tiles, against float64.

    One more run, with a dO that is 1 in the column of its group of queries: dV then is the weight that the
    queries of each group give to the key, as the backward pass computes it anew. Empty if it does not run.
    """
    if runs.subject is None or "dV" not in runs.got:
        return ()
    problem = runs.case.problem
    probe, group = key_group_probe(runs.tensors.d_out, problem.block_m)
    try:
        d_query, d_key, d_value = runs.gradients(probe)
    except (Refused, Broken):
        return ()
    gradients, inputs = (d_query, d_key, d_value), runs.tensors.inputs
    compared = compare_gradients(problem, gradients, inputs, probe, scale=runs.scale, band=runs.band)["dV"]
    groups = -(-problem.q_len // group)
    error, difference = compared.error[..., :groups], (d_value.double() - compared.exact)[..., :groups]
    by_column = error_map("weights backward", error, compared.report.tolerance, None, difference)
    return (replace(by_column, column_step=group, columns=problem.q_len),)


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
