"""From a whole tensor to the parts of ranks, and back."""

import torch

from kernels.problem.ranks import Run, runs_of


def shard(tensor: torch.Tensor, rank: int, world: int, layout: str = "zigzag", dim: int = 2) -> torch.Tensor:
    """The part of a whole tensor that lies on a rank, contiguous."""
    runs = runs_of(rank, world, tensor.shape[dim], layout)
    return torch.cat([_of_run(tensor, run, dim) for run in runs], dim)


def unshard(parts: list[torch.Tensor], layout: str = "zigzag", dim: int = 2) -> torch.Tensor:
    """The whole tensor of the parts of all ranks, in their order."""
    world, length = len(parts), sum(part.shape[dim] for part in parts)
    shape = list(parts[0].shape)
    shape[dim] = length
    whole = parts[0].new_empty(shape)
    for rank, part in enumerate(parts):
        runs = runs_of(rank, world, length, layout)
        for run, values in zip(runs, part.split([run.length for run in runs], dim), strict=True):
            _of_run(whole, run, dim).copy_(values)
    return whole


def _of_run(tensor: torch.Tensor, run: Run, dim: int) -> torch.Tensor:
    """A view of the positions of a run."""
    places: list[slice] = [slice(None)] * dim
    return tensor[(*places, slice(run.first, run.first + run.step * run.length, run.step))]
