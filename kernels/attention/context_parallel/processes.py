"""Ranks as processes of this machine, that end together. torchrun starts them elsewhere."""

import contextlib
import functools
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

from kernels.attention.context_parallel.run import RunOrder
from kernels.device.runtime import BACKEND, DEVICE
from kernels.trace.ranks import RanksTrace

POLL_S = 0.1
GRACE_S = 1.0
"""How long after the error of a rank another one may be found to have ended, and to be its cause."""
LIMIT_S = 300.0
LOADED_LATE = ("torch.fx.experimental.symbolic_shapes", "triton.experimental.gluon")
"""Loaded by the first gradients of torch and by the first kernel in Triton's interpreter: else once each."""

Work = Callable[[str, Callable[[int], None]], Any]
"""What a rank does, given torch's device and a function to be called with each step. It can be pickled."""


class RankFailed(RuntimeError):
    """A rank failed, ended or did not go on, and the others were ended."""


def traced_on_ranks(
    order: RunOrder, ranks: int, progress: Callable[[float], None] = lambda share: None
) -> RanksTrace:
    """The trace of a run on so many ranks. Raises as `run_on_ranks`.

    `progress` is called with the share of the steps that the slowest rank has done.
    """
    return run_on_ranks(functools.partial(_traced, order), ranks, progress=progress)[0]


def _traced(order: RunOrder, device: str, progress: Callable[[int], None]) -> RanksTrace | None:
    from kernels.attention.context_parallel.run import run_on_this_rank

    return run_on_this_rank(order, device, progress)


def run_on_ranks(
    work: Work, ranks: int, limit_s: float = LIMIT_S, progress: Callable[[float], None] = lambda share: None
) -> list[Any]:
    """What `work` returns on each of so many gloo ranks of this machine; GPUs are shared out over them.

    Raises ValueError if the ranks refuse their call, and RankFailed, which names the rank, if one fails or if
    it takes longer than `limit_s` seconds. No process is left behind, also if this one is killed.
    """
    context = _context()
    steps, started = context.Array("i", ranks, lock=False), []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(ranks):
            ours, theirs = context.Pipe(duplex=False)
            given = (work, rank, ranks, folder, theirs, steps, limit_s)
            process = context.Process(target=_rank, args=given, name=f"rank {rank}")
            process.start()
            theirs.close()
            started.append((process, ours))
        try:
            return _results(started, steps, limit_s, progress)
        finally:
            for process, pipe in started:
                process.kill()
                process.join()
                pipe.close()


def _context() -> Any:
    """How processes are started: CUDA does not survive a fork, and without it a fork saves the imports."""
    if BACKEND == "cuda":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kernels.attention.context_parallel.run", *LOADED_LATE])
    return context


def _results(started: list[Any], steps: Any, limit_s: float, progress: Callable[[float], None]) -> list[Any]:
    until = time.monotonic() + limit_s
    found: dict[int, Any] = {}
    while len(found) < len(started):
        wait([pipe for rank, (_, pipe) in enumerate(started) if rank not in found], timeout=POLL_S)
        progress(min(steps) / len(started))
        messages = _messages(started, found)
        if any(error for error, _ in messages.values()):  # it may be that another rank ended
            for rank, (process, _) in enumerate(started):
                if rank not in found | messages:
                    process.join(GRACE_S)
        ended = [rank for rank, (process, _) in enumerate(started) if not process.is_alive()]
        messages |= _messages(started, found | messages)  # read later: it may send, then end
        for rank in set(ended) - set(found) - set(messages):
            how = f"ended with exit status {started[rank][0].exitcode}"
            raise RankFailed(f"rank {rank} {how}; the others were ended")
        found |= {rank: _value(rank, *message) for rank, message in messages.items()}
        if time.monotonic() > until and len(found) < len(started):
            last = min(
                (rank for rank in range(len(started)) if rank not in found), key=lambda rank: steps[rank]
            )
            where = f"did not go on from step {steps[last]} within {limit_s:g} s"
            raise RankFailed(f"rank {last} {where}; all were ended")
    return [found[rank] for rank in range(len(started))]


def _messages(started: list[Any], known: Collection[int]) -> dict[int, tuple[BaseException | None, Any]]:
    """What other ranks have sent."""
    found = {}
    for rank, (_, pipe) in enumerate(started):
        if rank not in known and pipe.poll():
            with contextlib.suppress(EOFError):  # it ended without a word
                found[rank] = pipe.recv()
    return found


def _value(rank: int, error: BaseException | None, value: Any) -> Any:
    if isinstance(error, ValueError):
        raise error
    if error is not None:
        raise RankFailed(f"rank {rank}: {error}; the others were ended")
    return value


def _rank(
    work: Work, rank: int, ranks: int, folder: str, pipe: Connection, steps: Any, limit_s: float
) -> None:
    import torch
    import torch.distributed as dist

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        if BACKEND == "cuda":
            torch.cuda.set_device(rank % torch.cuda.device_count())
        store = f"file://{folder}/store"
        late = timedelta(seconds=2 * limit_s)  # the parent is to notice first
        dist.init_process_group("gloo", store, timeout=late, rank=rank, world_size=ranks)
        pipe.send((None, work(DEVICE, functools.partial(steps.__setitem__, rank))))
    except Exception as error:  # the parent says it
        known = error if isinstance(error, ValueError) else RuntimeError(f"{type(error).__name__}: {error}")
        pipe.send((known, None))
    os._exit(0)  # gloo's threads may wait for a lost rank


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
