"""Time and peak memory of attention implementations on the device at hand, in one run, peers in turn.

On CUDA time comes from device events and memory from torch's allocator; on a CPU time comes from the process clock and
memory from torch's profiler. Triton's interpreter is never timed as a kernel.

    python -m kernels.measure --help
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kernels.backend import DeviceInfo
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.traffic import forward_flops

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler writes a line to stderr at every start otherwise

FORMAT = "flash-attention-measurements"
FORMAT_VERSION = 1
BUDGET_S = 1.0
"""Seconds of timed calls a peer, once warm; at least MIN_SAMPLES calls and at most MAX_SAMPLES."""
MIN_SAMPLES, MAX_SAMPLES = 5, 200
L2_FLUSH_BYTES = 256 << 20


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one call: median, 10th and 90th percentile of `samples` calls after warm-up."""

    median_ms: float
    low_ms: float
    high_ms: float
    samples: int


@dataclass(frozen=True)
class PeerResult:
    """What one implementation gave. `refused` says why it was not run ("needs 68 GB, 24 GB free"); then the rest is None."""

    peer: str
    timing: Timing | None = None
    peak_extra_bytes: int | None = None
    """Peak of allocated bytes during a call beyond the inputs; the output counts."""
    refused: str | None = None

    def tflops(self, problem: AttentionProblem) -> float | None:
        """10^12 floating-point operations a second, by FlashAttention's count of operations."""
        return forward_flops(problem) / self.timing.median_ms / 1e9 if self.timing else None


@dataclass(frozen=True)
class Measurement:
    """All peers on one problem."""

    problem: AttentionProblem
    device: DeviceInfo
    recorded_at: str
    results: tuple[PeerResult, ...]

    def result(self, peer: str) -> PeerResult | None:
        return next((result for result in self.results if result.peer == peer), None)

    def as_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> Measurement:
        """The reverse of `as_dict`."""
        return cls(
            problem=AttentionProblem.from_dict(values["problem"]),
            device=DeviceInfo(**values["device"]),
            recorded_at=values["recorded_at"],
            results=tuple(
                PeerResult(**result | {"timing": Timing(**result["timing"]) if result["timing"] else None}) for result in values["results"]
            ),
        )


@dataclass(frozen=True)
class Peer:
    """One implementation of attention: its label, the backends it is timed on, and what prepares a call on a problem."""

    label: str
    backends: tuple[str, ...]
    prepare: Callable[[AttentionProblem, tuple], Callable[[], object]]


def measure(problem: AttentionProblem, peers: Iterable[str] | None = None, progress: Callable[[str], None] = lambda peer: None) -> Measurement:
    """Time and memory of the named peers (all that the device has, by default) on `make_inputs(problem)`.

    `progress` is called with the name of the peer that comes next. Raises InvalidProblem for an unknown peer.
    """
    from kernels.backend import device_info
    from kernels.inputs import make_inputs
    from kernels.softmax import BACKEND

    names = list(peers) if peers is not None else [name for name, peer in PEERS.items() if BACKEND in peer.backends]
    for name in names:
        if name not in PEERS or BACKEND not in PEERS[name].backends:
            accepted = ", ".join(key for key, peer in PEERS.items() if BACKEND in peer.backends)
            raise InvalidProblem("peers", name, f"on this device expected some of {accepted}")
    clock = _CudaClock() if BACKEND == "cuda" else _CpuClock()
    inputs = make_inputs(problem, clock.device)
    results, calls = {}, {}
    for name in names:
        progress(name)
        refusal = refuse_naive(problem, clock.free_bytes()) if name == "naive" else None
        if refusal is None:
            results[name], call = _try_peer(name, problem, inputs, clock)
            if call is not None:
                calls[name] = call
        else:
            results[name] = PeerResult(name, refused=refusal)
    progress("timing")
    for name, timing in clock.time_in_turn(calls).items():
        results[name] = replace(results[name], timing=timing)
    return Measurement(problem, device_info(BACKEND), datetime.now(UTC).isoformat(timespec="seconds"), tuple(results.values()))


def naive_peak_bytes(problem: AttentionProblem) -> int:
    """Modelled peak of naive attention beyond its inputs: two (q_len, kv_len) matrices for every head at once."""
    return 2 * problem.batch * problem.q_heads * problem.q_len * problem.kv_len * problem.itemsize


def refuse_naive(problem: AttentionProblem, free_bytes: int) -> str | None:
    """Why naive attention is not run on this problem, or None if it fits."""
    needed = naive_peak_bytes(problem)
    return None if needed <= free_bytes else f"needs {needed / 1e9:,.1f} GB, {free_bytes / 1e9:,.1f} GB free"


def _try_peer(name: str, problem: AttentionProblem, inputs: tuple, clock: _CpuClock | _CudaClock) -> tuple[PeerResult, Callable | None]:
    """Warm the peer up and take its memory; a peer that does not take this problem says so in its own words."""
    import torch

    try:
        call = PEERS[name].prepare(problem, inputs)
        call()
        return PeerResult(name, peak_extra_bytes=clock.peak_extra_bytes(call)), call
    except torch.OutOfMemoryError as error:
        return PeerResult(name, refused=str(error).split(". ")[0]), None
    except (RuntimeError, InvalidProblem) as error:
        return PeerResult(name, refused=str(error).splitlines()[0][:200]), None


# --- clocks ----------------------------------------------------------------------------------------------------------


class _CpuClock:
    device = "cpu"

    def free_bytes(self) -> int:
        return available_memory_bytes()

    def peak_extra_bytes(self, call: Callable[[], object]) -> int:
        """Peak of allocated minus freed bytes over the allocation events of torch's profiler."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            call()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            profiler.export_chrome_trace(file.name)
            events = json.loads(Path(file.name).read_text())["traceEvents"]
        changes = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]")
        return max(itertools.accumulate((change for _, change in changes), initial=0))

    def time_in_turn(self, calls: dict[str, Callable[[], object]]) -> dict[str, Timing]:
        def sample(call: Callable[[], object]) -> float:
            began = time.perf_counter()
            call()
            return (time.perf_counter() - began) * 1e3

        return _time_in_turn(calls, sample)


class _CudaClock:
    device = "cuda"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")

    def free_bytes(self) -> int:
        return self._torch.cuda.mem_get_info()[0]

    def peak_extra_bytes(self, call: Callable[[], object]) -> int:
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        call()
        cuda.synchronize()
        return cuda.max_memory_allocated() - before

    def time_in_turn(self, calls: dict[str, Callable[[], object]]) -> dict[str, Timing]:
        def sample(call: Callable[[], object]) -> float:
            self._flush.zero_()  # inputs come from HBM, not from the L2 that the call before filled
            start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            return start.elapsed_time(end)

        return _time_in_turn({name: self._replay(call) for name, call in calls.items()}, sample)

    def _replay(self, call: Callable[[], object]) -> Callable[[], object]:
        """The call captured in a CUDA graph, so that small problems are not timed by their launch overhead."""
        cuda = self._torch.cuda
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            call()
        cuda.current_stream().wait_stream(stream)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            call()
        graph.replay()
        return graph.replay


def _time_in_turn(calls: dict[str, Callable[[], object]], sample: Callable[[Callable], float]) -> dict[str, Timing]:
    """Round by round, one call of each peer, so that a drift of the machine meets all of them alike."""
    spent = {name: [] for name in calls}
    waiting = set(calls)
    while waiting:
        for name in sorted(waiting):
            spent[name].append(sample(calls[name]))
            if len(spent[name]) >= MAX_SAMPLES or (len(spent[name]) >= MIN_SAMPLES and sum(spent[name]) > BUDGET_S * 1e3):
                waiting.remove(name)
    return {name: _timing(samples) for name, samples in spent.items()}


def _timing(samples: list[float]) -> Timing:
    ordered = sorted(samples)
    last = len(ordered) - 1
    return Timing(statistics.median(ordered), ordered[math.floor(0.1 * last)], ordered[math.ceil(0.9 * last)], len(ordered))


def available_memory_bytes() -> int:
    """Memory that a new program could take without swapping, from /proc/meminfo; where that is missing, all there is."""
    try:
        with open("/proc/meminfo") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# --- peers -----------------------------------------------------------------------------------------------------------


def _prepare_naive(problem: AttentionProblem, inputs: tuple) -> Callable[[], object]:
    from kernels.reference import naive_attention
    from kernels.tiles import band

    left, right = band(problem)
    return lambda: naive_attention(*inputs, scale=problem.scale, left=left, right=right)


def _prepare_ours(problem: AttentionProblem, inputs: tuple) -> Callable[[], object]:
    from kernels.forward import flash_forward
    from kernels.launch import config_for_blocks
    from kernels.tiles import band

    left, right = band(problem)
    config = config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize)
    return lambda: flash_forward(*inputs, left=left, right=right, scale=problem.scale, config=config)


def _prepare_sdpa(backend: str | None) -> Callable[[AttentionProblem, tuple], Callable[[], object]]:
    def prepare(problem: AttentionProblem, inputs: tuple) -> Callable[[], object]:
        import torch.nn.functional as F
        from torch.nn.attention.bias import causal_lower_right

        arguments = {"enable_gqa": problem.q_heads != problem.kv_heads}
        if problem.is_causal and problem.q_len == problem.kv_len:
            arguments["is_causal"] = True
        elif problem.is_causal:
            arguments["attn_mask"] = causal_lower_right(problem.q_len, problem.kv_len)

        def call() -> object:
            with _sdpa_backend(backend):
                return F.scaled_dot_product_attention(*inputs, **arguments)

        return call

    return prepare


@contextmanager
def _sdpa_backend(name: str | None) -> Iterator[None]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if name is None:
        yield
    else:
        with sdpa_kernel(getattr(SDPBackend, name)):
            yield


PEERS = {
    "naive": Peer("naive attention (torch)", ("cuda", "interpreter"), _prepare_naive),
    "flash2": Peer("our kernel, this problem's tiles", ("cuda",), _prepare_ours),
    "sdpa": Peer("torch's fused attention on the CPU", ("interpreter",), _prepare_sdpa(None)),
    "sdpa_flash": Peer("SDPA flash (FlashAttention-2)", ("cuda",), _prepare_sdpa("FLASH_ATTENTION")),
    "sdpa_cudnn": Peer("SDPA cuDNN", ("cuda",), _prepare_sdpa("CUDNN_ATTENTION")),
}


# --- command line ----------------------------------------------------------------------------------------------------


def parse_problems(arguments: argparse.Namespace) -> list[AttentionProblem]:
    """The product of the comma-separated lists on the command line."""
    problems = []
    for length, head_dim, mask, dtype in itertools.product(arguments.length, arguments.head_dim, arguments.mask, arguments.dtype):
        fields = {"head_dim": head_dim, "mask": mask, "dtype": dtype, "q_len": length, "kv_len": arguments.kv_len or length}
        fields |= {"batch": arguments.batch, "q_heads": arguments.q_heads, "kv_heads": arguments.kv_heads or arguments.q_heads}
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
    parser.add_argument("--length", type=numbers, default=[1024], help="sequence lengths, comma separated (default 1024)")
    parser.add_argument("--kv-len", type=int, help="key length, where it differs from --length")
    parser.add_argument("--head-dim", type=numbers, default=[64])
    parser.add_argument("--mask", type=words, default=["full"], help="full, causal or both: full,causal")
    parser.add_argument("--dtype", type=words, default=["float16"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, help="instead of --batch: tokens a launch; batch = tokens / length")
    parser.add_argument("--q-heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int)
    parser.add_argument("--block-m", type=int, default=128)
    parser.add_argument("--block-n", type=int, default=64)
    parser.add_argument("--peers", type=words, help=f"some of {', '.join(PEERS)} (default: all that the device has)")
    parser.add_argument("--out", type=Path, help="write JSON here instead of to standard output")
    return parser


def main(argv: list[str] | None = None) -> int:
    arguments = _argument_parser().parse_args(argv)
    try:
        problems = parse_problems(arguments)
        measurements = []
        for problem in problems:
            measurements.append(measure(problem, arguments.peers))
            print(_line(measurements[-1]), file=sys.stderr, flush=True)
    except InvalidProblem as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    document = {"format": FORMAT, "version": FORMAT_VERSION, "command": " ".join(["python -m kernels.measure", *(argv or sys.argv[1:])])}
    document["measurements"] = [measurement.as_dict() for measurement in measurements]
    text = json.dumps(document, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    else:
        print(text)
    return 0


def _line(measurement: Measurement) -> str:
    problem = measurement.problem
    cells = [f"N {problem.q_len} d {problem.head_dim} {problem.mask} {problem.dtype} b{problem.batch} h{problem.q_heads}:"]
    for result in measurement.results:
        if result.timing is None:
            cells.append(f"{result.peer} refused ({result.refused})")
        else:
            extra = result.peak_extra_bytes / 2**20
            cells.append(f"{result.peer} {result.timing.median_ms:.3f} ms {result.tflops(problem):.1f} TFLOP/s +{extra:.0f} MiB")
    return "  ".join(cells)


if __name__ == "__main__":
    sys.exit(main())
