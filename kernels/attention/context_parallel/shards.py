"""From a whole tensor (batch, heads, length, ...) to the parts of ranks, and back."""

import torch

from kernels.problem.ranks import Run, runs_of


def shard(tensor: torch.Tensor, rank: int, world: int, layout: str = "zigzag") -> torch.Tensor:
    """The part of a whole tensor that lies on a rank, contiguous."""
    runs = runs_of(rank, world, tensor.shape[2], layout)
    return torch.cat([_of_run(tensor, run) for run in runs], 2)


def unshard(parts: list[torch.Tensor], layout: str = "zigzag") -> torch.Tensor:
    """The whole tensor of the parts of all ranks, in their order."""
    world, length = len(parts), sum(part.shape[2] for part in parts)
    whole = parts[0].new_empty((*parts[0].shape[:2], length, *parts[0].shape[3:]))
    for rank, part in enumerate(parts):
        runs = runs_of(rank, world, length, layout)
        for run, values in zip(runs, part.split([run.length for run in runs], 2), strict=True):
            _of_run(whole, run).copy_(values)
    return whole


def _of_run(tensor: torch.Tensor, run: Run) -> torch.Tensor:
    """A view of the positions of a run."""
    return tensor[:, :, run.first : run.first + run.step * run.length : run.step]
