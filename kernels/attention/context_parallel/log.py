"""What one rank did and when. Without a log nothing is written down, and no clock is read.

Times are those of the host's monotonic clock, which all ranks of a host share. What a GPU did is timed by its
events, and brought to that clock by an event at the start whose time the host knows to `clock_error_ns`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels.problem.ranks import Share


@dataclass
class Mark:
    """A moment: of the host, or an event on the GPU's current stream."""

    host_ns: int = 0
    event: torch.cuda.Event | None = None


@dataclass(frozen=True)
class Span:
    kind: str
    """One of `kernels.trace.ranks.KINDS`."""
    step: int
    owner: int
    """The rank whose keys it is about; -1 for all."""
    begin: Mark
    end: Mark
    bytes_sent: int = 0
    share: Share | None = None
    """What was attended to or merged."""


class Log:
    """Writes nothing down."""

    is_on = False
    step = 0

    def go_to(self, step: int) -> None:
        """The step that what follows belongs to."""

    def mark(self) -> Mark:
        return Mark()

    def add(
        self, kind: str, owner: int, begin: Mark, end: Mark, bytes_sent: int = 0, share: Share | None = None
    ) -> None:
        """Note that something was done between two marks."""

    def saw(self, share: Share, lse: Tensor) -> None:
        """Note what some rows saw."""

    def after_step(self) -> None:
        """Note the sums so far."""


NO_LOG = Log()


@dataclass
class RankLog(Log):
    """The spans of a rank, and lse of some rows of its first head after each step."""

    device: torch.device
    rows: Tensor
    """Places of the rows in this rank's part."""
    progress: Callable[[int], None] | None = None
    is_on = True
    spans: list[Span] = field(default_factory=list)
    lse: list[Tensor] = field(default_factory=list)
    clock_error_ns: int = 0

    def __post_init__(self) -> None:
        self._sums = torch.full(self.rows.shape, float("-inf"), device=self.device)
        self._start = self.mark()
        if self._start.event:
            torch.cuda.synchronize()
            for _ in range(5):  # the fastest says most
                before, event = time.monotonic_ns(), self.mark().event
                torch.cuda.synchronize()
                after = time.monotonic_ns()
                if not self.clock_error_ns or after - before < 2 * self.clock_error_ns:
                    self._start = Mark((before + after) // 2, event)
                    self.clock_error_ns = (after - before + 1) // 2

    def go_to(self, step: int) -> None:
        self.step = step
        if self.progress:
            self.progress(step)

    def mark(self) -> Mark:
        if self.device.type != "cuda":
            return Mark(time.monotonic_ns())
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return Mark(event=event)

    def add(
        self, kind: str, owner: int, begin: Mark, end: Mark, bytes_sent: int = 0, share: Share | None = None
    ) -> None:
        self.spans.append(Span(kind, self.step, owner, begin, end, bytes_sent, share))

    def saw(self, share: Share, lse: Tensor) -> None:
        own = self.rows - share.rows.start
        known = (own >= 0) & (own < lse.shape[2])
        seen = torch.where(known, lse[0, 0, own.clamp(0, lse.shape[2] - 1)], float("-inf"))
        self._sums = torch.logaddexp(self._sums, seen)

    def after_step(self) -> None:
        self.lse.append(self._sums)

    def host_ns(self, mark: Mark) -> int:
        """A moment by the host's clock; the GPU must be done."""
        if mark.event is None:
            return mark.host_ns
        assert self._start.event is not None
        return self._start.host_ns + round(1e6 * self._start.event.elapsed_time(mark.event))
