"""Time and peak memory of attention implementations on the device at hand, in one run, peers in turn.

On CUDA time comes from device events and memory from torch's allocator; on a CPU time comes from the process clock and
memory from torch's profiler. Triton's interpreter is never timed as a kernel.

    python -m kernels.measure --help
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.device.clocks import CpuClock, CudaClock
from kernels.device.gpu_state import summarise, watch_gpu
from kernels.measure.document import Document
from kernels.measure.measurement import DIRECTIONS, Measurement, PeerResult
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem, InvalidProblem

if TYPE_CHECKING:
    import torch


def measure(
    problem: AttentionProblem, peers: Iterable[str] | None = None, directions: Iterable[str] = ("forward",),
    progress: Callable[[str], None] = lambda peer: None, budget_s: float | None = None,
) -> Measurement:  # fmt: skip
    """Time and memory of the named peers (by default those that the device has) on `make_inputs(problem)`.

    `progress` is called with the name of the peer that comes next, `budget_s` is the time of the timed calls of each
    peer. Raises InvalidProblem for an unknown peer or direction.
    """
    from kernels.device.backend import device_info, utc_now
    from kernels.device.runtime import BACKEND

    names = (
        list(peers)
        if peers is not None
        else [name for name, peer in PEERS.items() if BACKEND in peer.backends and peer.by_default]
    )
    _check_names(names, directions, BACKEND)
    clock = CudaClock() if BACKEND == "cuda" else CpuClock()
    results = []
    with clock.context(), watch_gpu(BACKEND == "cuda") as readings:
        *inputs, d_output = draw_tensors(problem, clock.device)
        for direction in directions:
            results += _measure_direction(
                names, direction, problem, tuple(inputs), d_output, clock, progress, budget_s
            )
    recorded_at = utc_now()
    return Measurement(problem, device_info(BACKEND), recorded_at, tuple(results), summarise(readings))


def _measure_direction(
    names: list[str], direction: str, problem: AttentionProblem, inputs: tuple, d_output: torch.Tensor, clock: CpuClock | CudaClock,
    progress: Callable[[str], None], budget_s: float | None,
) -> list[PeerResult]:  # fmt: skip
    found, calls = {}, {}
    for name in names:
        progress(name)
        found[name], call = _try_peer(name, direction, problem, inputs, d_output, clock)
        if call is not None:
            calls[name] = call
    progress("timing")
    for name, timing in clock.time_prepared(calls, budget_s).items():
        found[name] = replace(found[name], timing=timing)
    return list(found.values())


def draw_tensors(problem: AttentionProblem, device: str) -> tuple[torch.Tensor, ...]:
    """query, key, value and d_output. Normal ones are drawn on a GPU itself: `make_inputs` takes longer than all peers together."""
    import torch

    from kernels.problem.inputs import make_d_output, make_inputs

    if device == "cpu" or problem.inputs != "normal":
        return *make_inputs(problem, device), make_d_output(problem, device)
    generator = torch.Generator(device).manual_seed(problem.seed)
    shapes = (problem.q_shape, problem.kv_shape, problem.kv_shape, problem.q_shape)
    return tuple(
        torch.randn(shape, generator=generator, device=device).to(getattr(torch, problem.dtype))
        for shape in shapes
    )


def _check_names(names: list[str], directions: Iterable[str], backend: str) -> None:
    for name in names:
        if name not in PEERS or backend not in PEERS[name].backends:
            accepted = ", ".join(key for key, peer in PEERS.items() if backend in peer.backends)
            raise InvalidProblem("peers", name, f"on this device expected some of {accepted}")
    for direction in directions:
        if direction not in DIRECTIONS:
            raise InvalidProblem("directions", direction, f"expected some of {', '.join(DIRECTIONS)}")


def naive_peak_bytes(problem: AttentionProblem, direction: str = "forward") -> int:
    """Modelled peak of naive attention beyond its inputs: so many (q_len, kv_len) matrices for every head at once.

    Forward S and P; backward P, which autograd kept, and dP, dS and one of their temporaries.
    """
    matrices = 2 if direction == "forward" else 4
    return matrices * problem.batch * problem.q_heads * problem.q_len * problem.kv_len * problem.itemsize


def refuse_naive(problem: AttentionProblem, free_bytes: int, direction: str = "forward") -> str | None:
    """Why naive attention is not run on this problem, or None if it fits."""
    needed = naive_peak_bytes(problem, direction)
    return None if needed <= free_bytes else f"needs {needed / 1e9:,.1f} GB, {free_bytes / 1e9:,.1f} GB free"


def _try_peer(
    name: str,
    direction: str,
    problem: AttentionProblem,
    inputs: tuple,
    d_output: torch.Tensor,
    clock: CpuClock | CudaClock,
) -> tuple[PeerResult, Callable | None]:
    """Warm the peer up and take its memory; a peer that does not take this problem says so in its own words."""
    import torch

    peer = PEERS[name]
    too_large = refuse_naive(problem, clock.free_bytes(), direction) if name == "naive" else None
    refusal = "forward only" if direction == "backward" and not peer.differentiable else too_large
    if refusal is not None:
        return PeerResult(
            name, refused=refusal, direction=direction, out_of_memory=refusal == too_large
        ), None
    try:
        call = make_call(name, direction, problem, inputs, d_output)
        call()
        peak = clock.peak_extra_bytes(call)
        return PeerResult(name, peak_extra_bytes=peak, direction=direction), clock.prepare(call)
    except (
        Exception
    ) as error:  # whatever an implementation or its compiler raises: the others are measured all the same
        if "CUDA error" in str(error):
            raise  # the context is lost, and with it every call that follows
        memory = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(
            error
        )
        words = str(error).split(". ")[0] if memory else str(error) or type(error).__name__
        return PeerResult(
            name, refused=words.splitlines()[0][:200], direction=direction, out_of_memory=memory
        ), None


def make_call(
    name: str, direction: str, problem: AttentionProblem, inputs: tuple, d_output: torch.Tensor
) -> Callable[[], object]:
    """What is timed: one forward pass of the peer, or one backward pass over a graph that is kept."""
    import torch

    attend = PEERS[name].make(problem)
    if direction == "forward":
        return lambda: attend(*inputs)
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    out = attend(*leaves)
    return lambda: torch.autograd.grad(out, leaves, d_output, retain_graph=True)


def parse_problems(arguments: argparse.Namespace) -> list[AttentionProblem]:
    """The product of the comma-separated lists on the command line."""
    problems = []
    lists = (arguments.batch, arguments.length, arguments.head_dim, arguments.mask, arguments.dtype)
    for batch, length, head_dim, mask, dtype in itertools.product(*lists):
        fields = {
            "head_dim": head_dim,
            "mask": mask,
            "dtype": dtype,
            "q_len": length,
            "kv_len": arguments.kv_len or length,
        }
        q_heads = max(1, arguments.width // head_dim) if arguments.width else arguments.q_heads
        fields |= {"batch": batch, "q_heads": q_heads, "kv_heads": arguments.kv_heads or q_heads}
        if arguments.tokens:
            fields["batch"] = max(1, arguments.tokens // length)
        problems.append(AttentionProblem(**fields, block_m=arguments.block_m, block_n=arguments.block_n))
    return problems


def _argument_parser() -> argparse.ArgumentParser:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    def words(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(prog="python -m kernels.measure", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--length", type=numbers, default=[1024], help="sequence lengths, comma separated (default 1024)"
    )
    parser.add_argument("--kv-len", type=int, help="key length, where it differs from --length")
    parser.add_argument("--head-dim", type=numbers, default=[64])
    parser.add_argument("--mask", type=words, default=["full"], help="full, causal or both: full,causal")
    parser.add_argument("--dtype", type=words, default=["float16"])
    parser.add_argument("--batch", type=numbers, default=[1], help="comma separated (default 1)")
    parser.add_argument(
        "--tokens", type=int, help="instead of --batch: tokens a launch; batch = tokens / length"
    )
    parser.add_argument("--q-heads", type=int, default=16)
    parser.add_argument(
        "--width", type=int, help="instead of --q-heads: heads x head_dim; heads = width / head_dim"
    )
    parser.add_argument("--kv-heads", type=int)
    parser.add_argument("--block-m", type=int, default=128)
    parser.add_argument("--block-n", type=int, default=64)
    parser.add_argument(
        "--peers", type=words, help=f"some of {', '.join(PEERS)} (default: all that the device has)"
    )
    parser.add_argument(
        "--directions", type=words, default=["forward"], help="forward, backward or both: forward,backward"
    )
    parser.add_argument("--budget", type=float, help="seconds of timed calls a peer (default 1)")
    parser.add_argument("--out", type=Path, help="write JSON here instead of to standard output")
    return parser


def main(argv: list[str] | None = None) -> int:
    """The command line: measure every problem it names. Returns 0, or 2 for a problem or peer that is not accepted."""
    arguments = _argument_parser().parse_args(argv)
    try:
        problems = parse_problems(arguments)
        measurements = []
        for problem in problems:
            measurements.append(
                measure(problem, arguments.peers, arguments.directions, budget_s=arguments.budget)
            )
            print(_line(measurements[-1]), file=sys.stderr, flush=True)
    except InvalidProblem as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    command = " ".join(["python -m kernels.measure", *(sys.argv[1:] if argv is None else argv)])
    text = Document(command, tuple(measurements)).to_json()
    if arguments.out:
        arguments.out.write_text(text)
    else:
        print(text, end="")
    return 0


def _line(measurement: Measurement) -> str:
    problem = measurement.problem
    lines = [
        f"N {problem.q_len} x {problem.kv_len} d {problem.head_dim} {problem.mask} {problem.dtype} b{problem.batch} h{problem.q_heads}"
    ]
    for result in measurement.results:
        if result.timing is None:
            lines.append(f"  {result.direction:8} {result.peer:14} {result.refused}")
        else:
            speed = f"{result.timing.median_ms:9.3f} ms {result.tflops(problem):7.1f} TFLOP/s"
            lines.append(
                f"  {result.direction:8} {result.peer:14} {speed} +{result.peak_extra_bytes / 2**20:,.0f} MiB"
            )
    return "\n".join(lines)
