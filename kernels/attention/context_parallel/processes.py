"""Ranks as processes of this machine, that end together: `run_on_ranks`. torchrun starts them elsewhere."""

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

from kernels.attention.context_parallel.run import RunOrder
from kernels.trace.ranks import RanksTrace

POLL_S = 0.1
MOST_RANKS = 8


class RankFailed(RuntimeError):
    """A rank failed, ended or did not go on, and the others were ended."""


def run_on_ranks(order: RunOrder, ranks: int, limit_s: float = 300.0) -> RanksTrace:
    """Run it on so many gloo ranks of this machine; GPUs are shared out over them.

    Raises ValueError if the ranks refuse the call, and RankFailed, which names the rank, if one fails or if
    it takes longer than `limit_s` seconds. No process is left behind, also if this one is killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kernels.attention.context_parallel.run"])
    steps = context.Array("i", ranks, lock=False)
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for rank in range(ranks):
            ours, theirs = context.Pipe(duplex=False)
            given = (order, rank, ranks, folder, theirs, steps, limit_s)
            process = context.Process(target=_rank, args=given, name=f"rank {rank}")
            process.start()
            theirs.close()
            started.append((process, ours))
        try:
            return _first_result(started, steps, limit_s)
        finally:
            for process, pipe in started:
                process.kill()
                process.join()
                pipe.close()


def _first_result(started: list[Any], steps: Any, limit_s: float) -> RanksTrace:
    """What rank 0 sends, once all are done."""
    until, running, trace = time.monotonic() + limit_s, dict(enumerate(started)), b""
    while running:
        wait([pipe for _, pipe in running.values()], timeout=POLL_S)
        for rank, (process, pipe) in list(running.items()):
            message = _message(pipe)
            if message is None and process.is_alive():
                continue
            if message is None:
                raise RankFailed(
                    f"rank {rank} ended with exit status {process.exitcode}; the others were ended"
                )
            error, blob = message
            if isinstance(error, ValueError):
                raise error
            if error is not None:
                raise RankFailed(f"rank {rank}: {type(error).__name__}: {error}; the others were ended")
            trace = blob or trace
            del running[rank]
        if time.monotonic() > until and running:
            last = min(running, key=lambda rank: steps[rank])
            raise RankFailed(
                f"rank {last} did not go on from step {steps[last]} within {limit_s:g} s; all were ended"
            )
    return RanksTrace.load(trace)


def _message(pipe: Connection) -> tuple[BaseException | None, bytes] | None:
    try:
        return pipe.recv() if pipe.poll() else None
    except EOFError:
        return None


def _rank(
    order: RunOrder, rank: int, ranks: int, folder: str, pipe: Connection, steps: Any, limit_s: float
) -> None:
    """What one rank's process does."""
    import torch
    import torch.distributed as dist

    from kernels.attention.context_parallel.run import run_on_this_rank

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        device = "cpu"
        if os.environ.get("TRITON_INTERPRET") != "1" and torch.cuda.is_available():
            torch.cuda.set_device(rank % torch.cuda.device_count())
            device = "cuda"
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=ranks,
            timeout=timedelta(seconds=2 * limit_s),  # the parent is to notice first
        )

        def progress(step: int) -> None:
            steps[rank] = step

        trace = run_on_this_rank(order, device, progress)
        pipe.send((None, trace.to_bytes() if trace else b""))
    except Exception as error:  # the parent says it
        pipe.send((error if isinstance(error, ValueError) else RuntimeError(str(error)), b""))
    os._exit(0)  # gloo's threads may wait for a lost rank


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
