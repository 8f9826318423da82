"""The child process that owns the device: `python -m kernels.worker`. Its client is `kernels.worker.client`.

The child reads jobs from standard input and writes messages to standard output, one job at a time. A message is one
line of JSON, followed by as many raw bytes as its "size" says. Whatever a kernel prints goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import BinaryIO

from kernels.problem import AttentionProblem, InvalidProblem

CRASHED_EXIT = 70
PROGRESS_EVERY_S = 0.1


def read_message(stream: BinaryIO) -> tuple[dict, bytes] | None:
    """The next message and its bytes; None at the end of the stream."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    size = message.get("size", 0)
    blob = stream.read(size) if size else b""
    return (message, blob) if len(blob) == size else None


def write_message(stream: BinaryIO, message: dict, blob: bytes = b"") -> None:
    """Write one message and its bytes, and flush."""
    stream.write(json.dumps(message | {"size": len(blob)}).encode() + b"\n" + blob)
    stream.flush()


Progress = Callable[[float, str], None]


def trace_job(request: dict, progress: Progress) -> tuple[dict, bytes]:
    """Run one algorithm with TRACE on and judge its output. The bytes are the trace file."""
    from kernels.oracle.reference import judge_trace
    from kernels.trace.trace import run_traced

    problem = AttentionProblem.from_dict(request["problem"])
    progress(0.0, "running the kernel")
    began = time.perf_counter()
    with _ReportPrograms(progress):
        trace = run_traced(problem, request["algorithm"])
    seconds = time.perf_counter() - began
    progress(1.0, "comparing with float64")
    return {"report": asdict(judge_trace(trace)), "seconds": seconds}, trace.without_acc().to_bytes()


def measure_job(request: dict, progress: Progress) -> tuple[dict, bytes]:
    """Time and memory of the peers on one problem; `directions` and `budget_s` as `kernels.measure.measure.measure` takes them."""
    from kernels.measure.measure import measure
    from kernels.measure.peers import PEERS

    problem = AttentionProblem.from_dict(request["problem"])

    def next_peer(name: str) -> None:
        progress(0.0, f"measuring {PEERS[name].label}" if name in PEERS else name)

    directions = tuple(request.get("directions", ("forward",)))
    return {
        "measurement": measure(
            problem, request.get("peers"), directions, next_peer, request.get("budget_s")
        ).as_dict()
    }, b""


def ceilings_job(request: dict, progress: Progress) -> tuple[dict, bytes]:
    """Copy bandwidth and matrix products of the device at hand."""
    from kernels.measure.ceilings import measure_ceilings

    return {
        "ceilings": [
            ceiling.as_dict()
            for ceiling in measure_ceilings(lambda words: progress(0.0, f"measuring {words}"))
        ]
    }, b""


def operations_job(request: dict, progress: Progress) -> tuple[dict, bytes]:
    """Bytes of each operation of naive attention, counted from its tensors."""
    from kernels.traffic.operations import count_operations

    counted = count_operations(AttentionProblem.from_dict(request["problem"]), request["direction"])
    return {"operations": [asdict(operation) for operation in counted]}, b""


def lesson_gradients_job(request: dict, progress: Progress) -> tuple[dict, bytes]:
    """The derivatives of a GradientLesson by torch's autograd in float64, and by this project's kernels in float32, as nested lists."""
    import torch

    from kernels.lessons.autograd import autograd_gradients, kernel_gradients
    from kernels.lessons.gradients import GradientLesson

    lesson = GradientLesson.from_dict(request["problem"])
    progress(0.0, "differentiating")
    answer = {"autograd": autograd_gradients(lesson), "kernel": kernel_gradients(lesson)}
    return {
        who: {name: tensor.tolist() for name, tensor in found.items()} for who, found in answer.items()
    } | {"torch": torch.__version__}, b""


def check_job(request: dict, progress: Progress) -> tuple[dict, bytes]:
    """Check one case, or vary its tiles and scale. The bytes of the answer are the error maps."""
    from kernels.check.job import answer

    return answer(request, progress)


JOBS = {
    "trace": trace_job,
    "measure": measure_job,
    "lesson_gradients": lesson_gradients_job,
    "check": check_job,
    "ceilings": ceilings_job,
    "operations": operations_job,
}


class _ReportPrograms:
    """Report the share of programs that Triton's interpreter has started; on CUDA there is nothing to report."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._said = time.monotonic()

    def __enter__(self) -> None:
        from kernels.primitives.softmax import BACKEND

        self._builder = None
        if BACKEND != "interpreter":
            return
        from triton.runtime.interpreter import interpreter_builder

        self._builder, original = interpreter_builder, interpreter_builder.set_grid_idx

        def set_grid_idx(x: int, y: int, z: int) -> None:
            original(x, y, z)
            if time.monotonic() - self._said > PROGRESS_EVERY_S:
                nx, ny, nz = interpreter_builder.grid_dim
                self._said = time.monotonic()
                self._progress(
                    ((x * ny + y) * nz + z) / (nx * ny * nz), "running the kernel in the interpreter"
                )

        interpreter_builder.set_grid_idx = set_grid_idx

    def __exit__(self, *error: object) -> None:
        if self._builder is not None:
            del self._builder.set_grid_idx


def describe_failure(error: BaseException) -> dict:
    """What the client needs to raise the right failure: kind, message, and for memory what was asked and what was free."""
    causes = _causes(error)
    for cause in causes:
        if isinstance(cause, InvalidProblem):
            return {"kind": "invalid_problem", "message": str(cause), "field": cause.field}
    memory = next((cause for cause in causes if _is_out_of_memory(cause)), None)
    if memory is not None:
        return {
            "kind": "out_of_memory",
            "message": str(memory).splitlines()[0],
            "asked": _asked_bytes(str(memory)),
            "free": _free_bytes(),
        }
    message = f"{type(causes[-1]).__name__}: {causes[-1]}".splitlines()[0]
    return {"kind": "crashed" if "CUDA error" in message else "failed", "message": message}


def _causes(error: BaseException) -> list[BaseException]:
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return chain


def _is_out_of_memory(error: BaseException) -> bool:
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def _asked_bytes(message: str) -> int | None:
    """Bytes that an allocator's message names: torch on the CPU counts bytes, torch on CUDA and NumPy say "2.00 GiB"."""
    found = re.search(r"allocate ([\d.]+) (bytes|KiB|MiB|GiB|TiB)", message)
    if not found:
        return None
    return int(float(found[1]) * 1024 ** ("bytes", "KiB", "MiB", "GiB", "TiB").index(found[2]))


def _free_bytes() -> int:
    from kernels.device.clocks import available_memory_bytes
    from kernels.primitives.softmax import BACKEND

    if BACKEND == "cuda":
        import torch

        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]
    return min(available_memory_bytes(), max(_data_limit() - _data_bytes(), 0))


def _data_bytes() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData"))


def _data_limit() -> int:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return limit if limit != resource.RLIM_INFINITY else 1 << 62


def limit_memory(extra_bytes: int | None) -> None:
    """Make an allocation fail, instead of the kernel killing the process, once `extra_bytes` more than now are in use.

    By default nine tenths of the memory that is available now.
    """
    import resource

    from kernels.device.clocks import available_memory_bytes

    extra = extra_bytes if extra_bytes is not None else int(0.9 * available_memory_bytes())
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + extra, hard))


def _read_jobs(stream: BinaryIO, jobs: queue.Queue) -> None:
    """Pass jobs on; when the client is gone, end the process even in the middle of a job."""
    while (message := read_message(stream)) is not None:
        jobs.put(message[0] | {"blob": message[1]})
    os._exit(0)


def serve(jobs: queue.Queue, out: BinaryIO) -> None:
    """Answer jobs until the process ends."""
    while True:
        request = jobs.get()
        identity = {"id": request["id"]}

        def progress(fraction: float, label: str, identity: dict = identity) -> None:
            write_message(out, identity | {"event": "progress", "fraction": fraction, "label": label})

        write_message(out, identity | {"event": "started"})
        try:
            answer, blob = JOBS[request["job"]](request, progress)
        except Exception as error:  # every failure of a job is an answer; the loop goes on
            failure = describe_failure(error)
            write_message(out, identity | {"event": "failed"} | failure)
            if failure["kind"] == "crashed":
                os._exit(CRASHED_EXIT)  # the CUDA context is lost; the client starts a fresh process
        else:
            write_message(out, identity | {"event": "done"} | answer, blob)


def main(argv: list[str] | None = None) -> None:
    """The child process: say what device there is, then answer jobs until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m kernels.worker", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--memory-limit",
        type=int,
        help="bytes that jobs may allocate on the CPU (default: 0.9 of what is free)",
    )
    parser.add_argument("--kernel", help="file.py:function of the user, that check and measure jobs may name")
    arguments = parser.parse_args(argv)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs: queue.Queue = queue.Queue()
    threading.Thread(target=_read_jobs, args=(sys.stdin.buffer, jobs), daemon=True).start()

    from kernels.algorithms.flash2 import forward  # noqa: F401  (warm: the first job should not wait for imports)
    from kernels.device.backend import device_info
    from kernels.primitives.softmax import BACKEND

    if arguments.kernel:
        from kernels.check.user_kernel import UserKernel, name_user_kernel

        name_user_kernel(
            UserKernel.unchecked(arguments.kernel)
        )  # a file that is missing by now is the job's failure
    if BACKEND == "interpreter":
        limit_memory(arguments.memory_limit)
    write_message(out, {"event": "ready", "device": device_info(BACKEND).as_dict()})
    serve(jobs, out)
