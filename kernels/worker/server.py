"""The child process that owns the device: `python -m kernels.worker`. Its client is `kernels.worker.client`.

It reads requests from standard input and writes messages to standard output, one job at a time. What a kernel
prints goes to standard error. Requests that run the user's code go to a process of the worker's own, its host
(`Host` of `process.py`): nothing of that code is ever imported where results are judged.
"""

import argparse
import contextlib
import ctypes
import os
import queue
import signal
import threading
from typing import Any, BinaryIO

import msgspec

import kernels.check.requests
import kernels.check.subject.hosted  # noqa: F401  the classes of its jobs
from kernels.worker.failures import message_of
from kernels.worker.process import HOST, read_message, write_message
from kernels.worker.requests import REQUESTS

CRASHED_EXIT = 70
PR_SET_PDEATHSIG = 1
"""Of Linux's prctl."""
MEMORY_SHARE = 0.9
"""Share of the free memory that jobs may allocate on the CPU by default."""

Jobs = queue.Queue[dict]


def main(argv: list[str] | None = None) -> None:
    """Say what device there is, then answer requests until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="python -m kernels.worker", description=(__doc__ or "").split("\n\n")[0]
    )
    limit = f"bytes that jobs may allocate on the CPU (default: {MEMORY_SHARE} of what is free)"
    parser.add_argument("--memory-limit", type=int, help=limit)
    kernel = "file.py:function of the user, that check and measure jobs may name; may be given several times"
    parser.add_argument("--kernel", action="append", default=[], help=kernel)
    parser.add_argument("--host", action="store_true", help="run the user's code in this process itself")
    arguments = parser.parse_args(argv)
    jobs, out = open_pipes()
    end_with_parent()

    # Imported before the first job, so that it does not wait for torch and triton.
    from kernels.algorithms.flash2 import forward  # noqa: F401
    from kernels.device.backend import device_info
    from kernels.device.runtime import BACKEND

    if arguments.kernel:
        from kernels.check.subject.user_kernel import UserKernel, name_user_kernels

        # not checked here: a job fails if its file is missing by now
        name_user_kernels([UserKernel.unchecked(text) for text in arguments.kernel])
        HOST.kernels = arguments.kernel
    if BACKEND == "interpreter":
        limit_memory(arguments.memory_limit)
    else:
        report_compiling(out)
    write_message(out, {"event": "ready", "device": device_info(BACKEND)})
    serve(jobs, out, is_host=arguments.host)


def open_pipes() -> tuple[Jobs, BinaryIO]:
    """Requests from standard input, and the stream of messages. Standard output becomes standard error.

    Both are copies: `exit()` closes standard input, and a kernel may print.
    """
    given, out, jobs = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), Jobs()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    threading.Thread(target=_read_jobs, args=(given, jobs), daemon=True).start()
    return jobs, out


def end_with_parent() -> None:
    """End this process when the one that started it ends, whatever the user's code does here."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(jobs: Jobs, out: BinaryIO, *, is_host: bool = False) -> None:
    """Answer requests until the process ends."""

    def progress(fraction: float, label: str) -> None:
        write_message(out, {"event": "progress", "fraction": fraction, "label": label})

    while True:
        message = jobs.get()
        write_message(out, {"event": "started"})
        try:
            request = msgspec.convert(message["values"], REQUESTS[message["request"]])
            runs_here = is_host or not request.runs_user_code
            answer = request.run(progress) if runs_here else HOST.ask(request, progress)
        except Exception as error:  # every failure of a job is an answer; the loop goes on
            failure = message_of(error)
            write_message(out, {"event": "failed"} | failure)
            if failure["kind"] == "crashed":
                os._exit(CRASHED_EXIT)  # the CUDA context is lost; the client starts a fresh process
        else:
            write_message(out, {"event": "done", "answer": answer})


def report_compiling(out: BinaryIO) -> None:
    """Say when Triton compiles a kernel: for seconds, a first run waits for that alone.

    Triton's own hook before it (`jit_cache_hook`) writes constants as JSON, which records are not.
    """
    from triton import knobs
    from triton.backends.nvidia.compiler import CUDABackend

    add_stages = CUDABackend.add_stages

    def say(label: str) -> None:
        write_message(out, {"event": "progress", "fraction": 0.0, "label": label})

    def compiling(*given: Any) -> None:
        say("compiling a kernel for this GPU")
        add_stages(*given)

    CUDABackend.add_stages = compiling
    knobs.compilation.listener = lambda *, src, **_: say(f"running {src.name}")


def limit_memory(extra_bytes: int | None) -> None:
    """Make allocations fail that need more than `extra_bytes` beyond what is in use now.

    The default is MEMORY_SHARE of the free memory. Without a limit the operating system would end the
    process.
    """
    import resource

    from kernels.device.memory import available_memory_bytes, process_data_bytes

    extra = extra_bytes if extra_bytes is not None else int(MEMORY_SHARE * available_memory_bytes())
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (process_data_bytes() + extra, hard))


def _read_jobs(stream: BinaryIO, jobs: Jobs) -> None:
    """Queue requests. When the client is gone, end the process, even in the middle of a job."""
    while (message := read_message(stream)) is not None:
        jobs.put(message)
    os._exit(0)
