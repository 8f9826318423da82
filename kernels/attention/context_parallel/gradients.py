"""Gradients of queries that see one part of the keys after the other."""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.dispatch import sweeps_of_parts
from kernels.attention.operators import launch_backward
from kernels.primitives.replay import repeat
from kernels.problem import Band
from kernels.problem.ranks import Runs

if TYPE_CHECKING:
    from kernels.algorithms.flash3_backward.launch import SweepsOfParts


class _AddedUp:
    """By whichever kernels fit, one call per part; each dQ is added to a float32 sum."""

    def __init__(self, inputs: BackwardInputs) -> None:
        self._inputs = inputs
        self._sum = torch.zeros_like(inputs.query, dtype=torch.float32)

    def of_keys(self, rows: slice, key: Tensor, value: Tensor, band: Band) -> tuple[Tensor, Tensor]:
        """dK and dV of keys that these rows see; dQ is kept."""
        given = self._inputs
        d_lse = None if given.d_lse is None else given.d_lse[:, :, rows].contiguous()
        query, out, d_out = (tensor[:, :, rows] for tensor in (given.query, given.out, given.d_out))
        tensors = (query, key, value, out, given.lse[:, :, rows].contiguous(), d_out, d_lse)
        d_rows, d_key, d_value = repeat(launch_backward, tensors, (band.left, band.right, given.scale))
        self._sum[:, :, rows] += d_rows
        return d_key, d_value

    def of_queries(self) -> Tensor:
        """dQ of all parts."""
        return self._sum.to(self._inputs.query.dtype)


def gradients_in_parts(inputs: BackwardInputs, runs: Runs) -> "_AddedUp | SweepsOfParts":
    """Of inputs whose keys are one of the parts; a part is seen by all rows, or by those of some `runs`."""
    lengths = [run.length for run in runs]
    d_lse = None if inputs.d_lse is None else inputs.d_lse.contiguous()
    inputs = replace(inputs, lse=inputs.lse.contiguous(), d_lse=d_lse)
    return sweeps_of_parts(inputs, lengths) or _AddedUp(inputs)
