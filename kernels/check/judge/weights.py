"""Where along the keys a kernel goes wrong: the weight that it gives to each group of key or query tiles."""

from __future__ import annotations

from dataclasses import replace

import torch

from kernels.check.judge.calls import Calls
from kernels.check.judge.compare import error_map
from kernels.check.result import ErrorMap
from kernels.check.subject.user_errors import Broken, Refused
from kernels.oracle.rule import Comparison, compare_gradients


def weigh_keys(calls: Calls) -> tuple[tuple[ErrorMap, ...], torch.Tensor | None]:
    """How much of its attention each row gives to each group of key tiles, against float64; and its sum.

    This is one more run, with values that are 1 in the column of their group of keys and 0 elsewhere: O then
    is the weight of each group. It shows at which keys any kernel goes wrong. Empty if it does not run.
    """
    if calls.subject is None or "O" not in calls.got:
        return (), None
    problem, (query, key, value) = calls.case.problem, calls.tensors.inputs
    probe, group = group_probe(value, problem.block_n)
    try:
        got, _ = calls.forward((query, key, probe))
    except (Refused, Broken):
        return (), None
    compared = calls.references((query, key, probe)).compare(got)
    found, weights = _weights("weights", got, compared, group, problem.kv_len)
    return (found,), weights.sum(dim=-1)


def weigh_queries(calls: Calls) -> tuple[ErrorMap, ...]:
    """How much weight the backward pass gives to each key, by groups of query tiles, against float64.

    One more run, with a dO that is 1 in the column of its group of queries: dV then is the weight that the
    queries of each group give to the key, as the backward pass computes it again. Empty if it does not run.
    """
    if calls.subject is None or "dV" not in calls.got:
        return ()
    problem, inputs = calls.case.problem, calls.tensors.inputs
    probe, group = group_probe(calls.tensors.d_out, problem.block_m)
    try:
        d_query, d_key, d_value = calls.gradients(probe)
    except (Refused, Broken):
        return ()
    gradients = (d_query, d_key, d_value)
    compared = compare_gradients(problem, gradients, inputs, probe, scale=calls.scale, band=calls.band)["dV"]
    return (_weights("weights backward", d_value, compared, group, problem.q_len)[0],)


def group_probe(tensor: torch.Tensor, block: int) -> tuple[torch.Tensor, int]:
    """Values shaped as the tensor that tell groups of its rows apart, and the number of rows in a group.

    They are 1 in the column of their row's group and 0 elsewhere. A group is one tile of `block` rows, or
    several if the head has fewer columns than there are tiles.
    """
    length, head_dim = tensor.shape[2:]
    tiles_per_group = -(-length // (block * head_dim))
    group = tiles_per_group * block
    row = torch.arange(length, device=tensor.device)
    probe = torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    probe[:, :, row, row // group] = 1
    return probe, group


def _weights(
    kind: str, got: torch.Tensor, compared: Comparison, group: int, columns: int
) -> tuple[ErrorMap, torch.Tensor]:
    """The map of weights in groups of so many columns, and the weights themselves in float64."""
    groups = -(-columns // group)
    weights, error = got.double()[..., :groups], compared.error[..., :groups]
    found = error_map(kind, error, compared.report.tolerance, weights - compared.exact[..., :groups])
    return replace(found, column_step=group, columns=columns), weights
