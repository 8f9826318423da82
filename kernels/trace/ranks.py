"""What each rank of a context-parallel run did and when, as NumPy arrays."""

from dataclasses import dataclass

import numpy as np

from kernels.device.backend import DeviceInfo
from kernels.file_format import ArrayFile
from kernels.oracle.report import ErrorReport
from kernels.problem import AttentionProblem

KINDS = ("attend", "merge", "transfer")


@dataclass(frozen=True, eq=False)
class RanksTrace(ArrayFile):
    """The spans of all ranks, ordered by rank and begin. Times count from the first begin, on one clock.

    `spans` below is the number of entries. A transfer is over when what the rank before sent has arrived.
    """

    FORMAT = "flash-attention-ranks"
    VERSIONS = (1,)

    problem: AttentionProblem
    """Of the whole sequence."""
    ranks: int
    method: str
    layout: str
    direction: str
    """"forward" or "backward" (the gradients alone)."""
    transport: str
    """Backend of torch.distributed: "nccl" or "gloo"."""
    device: DeviceInfo
    """Of rank 0."""
    recorded_at: str
    """UTC date and time, ISO 8601."""
    clock_error_ns: int
    """How far the clocks of two ranks may be apart: twice the largest error of one rank's own."""
    reports: dict[str, ErrorReport]
    """How far each result, put together, is from float64: by "O", or by "dQ", "dK", "dV"."""
    span_rank: np.ndarray
    """int8 (spans,)"""
    span_kind: np.ndarray
    """int8 (spans,): index into KINDS."""
    span_step: np.ndarray
    """int8 (spans,)"""
    span_owner: np.ndarray
    """int8 (spans,): the rank whose keys it is about; -1 for those of all."""
    span_begin_ns: np.ndarray
    """int64 (spans,)"""
    span_end_ns: np.ndarray
    """int64 (spans,)"""
    span_bytes: np.ndarray
    """int64 (spans,): sent to other ranks."""
    span_places: np.ndarray
    """int32 (spans, 4): rows [first, end) of the rank's part and keys [first, end) of the owner's that meet;
    of the whole sequence if the owner is -1. All 0 for a transfer."""
    span_bounds: np.ndarray
    """int32 (spans, 2): the smallest and the largest key minus row that is seen, counted from the first of
    both."""
    span_pairs: np.ndarray
    """int64 (spans,): pairs of a query and a key that are seen, per head that the rank computes."""
    positions: np.ndarray
    """int32 (ranks, rows): rows of the sequence whose sums are noted, of the first head."""
    lse: np.ndarray
    """float32 (ranks, steps, rows): log-sum-exp of the keys seen so far after each step; no step for
    gradients, or if a rank computes whole heads."""

    @property
    def ns(self) -> int:
        """From the first begin to the last end."""
        return int(self.span_end_ns.max(initial=0))

    def of(self, kind: str, rank: int | None = None) -> np.ndarray:
        """bool (spans,): those of a kind, of one rank alone if it is named."""
        chosen = self.span_kind == KINDS.index(kind)
        return chosen if rank is None else chosen & (self.span_rank == rank)

    def pairs(self, rank: int) -> int:
        """Pairs of a query and a key that a rank attended to, per head that it computes."""
        return int(self.span_pairs[self.of("attend", rank)].sum())
