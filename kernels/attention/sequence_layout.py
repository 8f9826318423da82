"""Which positions of a sequence lie on which rank, and what a rank's queries see of another's keys."""

from dataclasses import dataclass

import torch

from kernels.problem import Band

LAYOUTS = ("zigzag", "contiguous", "striped")
"""zigzag: chunks r and 2P - 1 - r of 2P (torch: head-tail, Megatron: DualChunkSwap), so that all ranks have
the same work under a causal mask; contiguous: chunk r of P; striped: every P-th position from r on."""


@dataclass(frozen=True)
class Run:
    """`length` positions from `first` on, `step` apart."""

    first: int
    step: int
    length: int

    def positions(self) -> torch.Tensor:
        """int64 (length,)"""
        return self.first + self.step * torch.arange(self.length)


def divisor_of(world: int, layout: str) -> int:
    """What a length has to be a multiple of. Raises ValueError for an unknown layout."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r} is not accepted: expected one of {', '.join(LAYOUTS)}")
    return 2 * world if layout == "zigzag" else world


def runs_of(rank: int, world: int, length: int, layout: str) -> tuple[Run, ...]:
    """The positions of a rank, in the order in which its tensors hold them; `length` is that of all ranks.

    Raises ValueError, which names lengths that would do, if the length cannot be shared out.
    """
    divisor = divisor_of(world, layout)
    if length % divisor:
        below = length // divisor * divisor
        would_do = f"{below} or {below + divisor}" if below else f"{divisor}"
        raise ValueError(f"length {length} cannot be shared out over {world} ranks, {layout}: {would_do} can")
    if layout == "striped":
        return (Run(rank, world, length // world),)
    size = length // divisor
    chunks = (rank, 2 * world - 1 - rank) if layout == "zigzag" else (rank,)
    return tuple(Run(chunk * size, 1, size) for chunk in chunks)


def shard(tensor: torch.Tensor, rank: int, world: int, layout: str = "zigzag", dim: int = 2) -> torch.Tensor:
    """The part of a whole tensor that lies on a rank, contiguous."""
    runs = runs_of(rank, world, tensor.shape[dim], layout)
    positions = torch.cat([run.positions() for run in runs]).to(tensor.device)
    return tensor.index_select(dim, positions)


def unshard(parts: list[torch.Tensor], layout: str = "zigzag", dim: int = 2) -> torch.Tensor:
    """The whole tensor of the parts of all ranks, in their order."""
    world, length = len(parts), sum(part.shape[dim] for part in parts)
    runs = (run for rank in range(world) for run in runs_of(rank, world, length, layout))
    positions = torch.cat([run.positions() for run in runs]).to(parts[0].device)
    whole = torch.cat(parts, dim)
    return torch.empty_like(whole).index_copy_(dim, positions, whole)


def band_between(
    queries: Run, keys: Run, left: int | None, right: int | None, offset: int = 0
) -> Band | None:
    """What these queries see of these keys; None if they see none.

    A query at position i + `offset` sees the keys from `left` before it to `right` after it; None leaves a
    side open. Both runs have the same step.
    """
    step, apart = queries.step, queries.first + offset - keys.first
    rows, columns = queries.length, keys.length
    low = -rows if left is None else -((left - apart) // step)
    high = columns if right is None else (apart + right) // step
    if high <= -rows or low >= columns or low > high:  # key j of query i: low <= j - i <= high
        return None
    unbounded = rows + columns
    return Band(rows, columns, min(columns - rows - low, unbounded), min(high - columns + rows, unbounded))
