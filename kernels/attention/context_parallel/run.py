"""One run on all ranks, written down rank by rank, and judged against float64 on rank 0."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from kernels.attention.context_parallel.attention import context_parallel_attention
from kernels.attention.context_parallel.log import RankLog, Span
from kernels.attention.context_parallel.shards import shard, unshard
from kernels.device.backend import device_info, utc_now
from kernels.device.runtime import BACKEND
from kernels.oracle.rule import GRADIENTS, compare_gradients, compare_output
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.problem.ranks import runs_of
from kernels.trace.ranks import KINDS, RanksTrace

WARM_UPS = 4
"""Calls on a GPU before the one that is noted: the first compiles, the next ones are written down."""
NOTED_ROWS = 16
"""Rows of each rank whose sums are noted."""


@dataclass(frozen=True)
class RunOrder:
    problem: AttentionProblem
    """Of the whole sequence. Its mask is full, causal or a window."""
    method: str = "ring"
    layout: str = "zigzag"
    direction: str = "forward"


def options_of(problem: AttentionProblem) -> dict[str, Any]:
    """The mask and the scale of a problem, as `context_parallel_attention` takes them."""
    masked = {"is_causal": problem.is_causal, "window": problem.window}
    return masked | {"scale": problem.scale, "enable_gqa": True}


def run_on_this_rank(
    order: RunOrder, device: str, progress: Callable[[int], None] | None = None
) -> RanksTrace | None:
    """Run and judge it; every rank of the default group calls this. Rank 0 gets the trace.

    `progress` is called with each step. Raises what `context_parallel_attention` raises.
    """
    problem, rank, world = order.problem, dist.get_rank(), dist.get_world_size()
    inputs = _inputs(problem, device)
    parts = [shard(tensor, rank, world, order.layout).requires_grad_() for tensor in inputs]
    rows = torch.linspace(0, parts[0].shape[2] - 1, min(NOTED_ROWS, parts[0].shape[2])).long()
    options = options_of(problem) | {"method": order.method, "layout": order.layout}
    d_out = make_d_output(problem, device) if order.direction == "backward" else None
    own_d_out = None if d_out is None else shard(d_out, rank, world, order.layout)

    def call(log: RankLog) -> tuple[Tensor, ...]:
        out = context_parallel_attention(*parts, **options, log=log)
        assert isinstance(out, Tensor)
        if own_d_out is None:
            return (out.detach(),)
        log.spans.clear()
        log.lse.clear()
        return torch.autograd.grad(out, parts, own_d_out)

    if BACKEND == "cuda":
        for _ in range(WARM_UPS):
            call(RankLog(parts[0].device, rows.to(device)))
        torch.cuda.synchronize()
    dist.barrier()
    log = RankLog(parts[0].device, rows.to(device), progress=progress)
    results = call(log)
    if BACKEND == "cuda":
        torch.cuda.synchronize()
    positions = np.concatenate([run.positions for run in runs_of(rank, world, problem.q_len, order.layout)])
    noted = positions[rows.numpy()].tolist(), [lse.tolist() for lse in log.lse]
    own = ([_numbers(log, span) for span in log.spans], *noted)
    gathered: list[Any] = [None] * world
    dist.gather_object(
        (own, log.clock_error_ns, [each.cpu() for each in results]), gathered if not rank else None
    )
    if rank:
        return None
    whole = [unshard([each[2][part] for each in gathered], order.layout) for part in range(len(results))]
    if d_out is None:
        reports = {"O": compare_output(problem, whole[0], inputs).report}
    else:
        compared = compare_gradients(problem, (whole[0], whole[1], whole[2]), inputs, d_out)
        reports = {name: compared[name].report for name in GRADIENTS}
    error = 2 * max(each[1] for each in gathered)
    return _joined(order, [each[0] for each in gathered], error, reports)


@functools.lru_cache(1)
def _inputs(problem: AttentionProblem, device: str) -> tuple[Tensor, Tensor, Tensor]:
    return make_inputs(problem, device)


def _numbers(log: RankLog, span: Span) -> tuple[int, ...]:
    """A span as a row of numbers, in the order of `_joined`."""
    begin, end = log.host_ns(span.begin), log.host_ns(span.end)
    head = (KINDS.index(span.kind), span.step, span.owner, begin, end, span.bytes_sent)
    if span.share is None:
        return (*head, *[0] * 7)
    rows, keys, band = span.share.rows, span.share.keys, span.share.band
    apart = band.kv_len - band.q_len
    low, high = max(apart - band.left, 1 - band.q_len), min(apart + band.right, band.kv_len - 1)
    return (*head, rows.start, rows.stop, keys.start, keys.stop, low, high, band.visible_pairs)


def _joined(order: RunOrder, ranks: list[Any], clock_error_ns: int, reports: dict[str, Any]) -> RanksTrace:
    numbered = [(rank, *span) for rank, (spans, _, _) in enumerate(ranks) for span in spans]
    table = np.array(sorted(numbered, key=lambda span: (span[0], span[4])), np.int64).reshape(-1, 14)
    start = table[:, 4].min(initial=np.iinfo(np.int64).max)
    return RanksTrace(
        problem=order.problem,
        ranks=len(ranks),
        method=order.method,
        layout=order.layout,
        direction=order.direction,
        transport=dist.get_backend(),
        device=device_info(BACKEND),
        recorded_at=utc_now(),
        clock_error_ns=clock_error_ns,
        reports=reports,
        span_rank=table[:, 0].astype(np.int8),
        span_kind=table[:, 1].astype(np.int8),
        span_step=table[:, 2].astype(np.int8),
        span_owner=table[:, 3].astype(np.int8),
        span_begin_ns=table[:, 4] - start,
        span_end_ns=table[:, 5] - start,
        span_bytes=table[:, 6],
        span_places=table[:, 7:11].astype(np.int32),
        span_bounds=table[:, 11:13].astype(np.int32),
        span_pairs=table[:, 13],
        positions=np.array([positions for _, positions, _ in ranks], np.int32),
        lse=np.array([lse for _, _, lse in ranks], np.float32).reshape(len(ranks), -1, len(ranks[0][1])),
    )
