"""Hardware counters of attention per kernel, read with NVIDIA's `ncu`: DRAM and L2 bytes, tensor-core use.

`ncu` runs a child process, which is this file, and which makes the calls. Some machines do not allow programs
to read the counters of their GPU. Then `read_counters` raises CountersUnavailable.
"""

import csv
import glob
import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernels import ROOT
from kernels.device.backend import DeviceInfo, device_info, utc_now
from kernels.device.clocks import Call
from kernels.file_format import Amount, Day
from kernels.measure.measurement import Direction
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.traffic.operations import Operation

LIMIT_S = 150
COUNTED_PROBLEMS = tuple(
    AttentionProblem(q_heads=16, kv_heads=16, q_len=4096, kv_len=4096, head_dim=head_dim, mask=mask)
    for head_dim, mask in ((64, "full"), (128, "causal"), (128, "full"))
)
"""Problems whose counters are recorded. S is ten times as large as the L2; Q, K, V and O each fit in it."""
COUNTED_CALLS = tuple(
    (peer, direction)
    for direction in ("forward", "backward")
    for peer in ("naive", "ours", "sdpa_flash", "sdpa_cudnn")
)
TIME, DRAM_READ, DRAM_WRITTEN, L2 = BASIC_METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
)
TENSOR_METRICS = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_gmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
)
"""Share of the tensor cores' peak. Each chip has some of these metrics; the first one that it has is used."""
MARKER = "spin_kernel"
"""The kernel of torch.cuda._sleep, which is launched before each call to separate the calls in ncu's list."""


@dataclass(frozen=True)
class KernelCounters:
    """One kernel launch: its name, and ncu's metrics in base units (bytes, nanoseconds, percent)."""

    name: str
    metrics: dict[str, Amount]

    @property
    def short_name(self) -> str:
        """The function's own name: without namespaces, template and call arguments."""
        bare = re.sub(r"<unnamed>|\(anonymous namespace\)", "", self.name.removeprefix("void "))
        return re.split(r"[<(]", bare, maxsplit=1)[0].rsplit("::", 1)[-1] or self.name

    @property
    def time_ms(self) -> float:
        """On the GPU."""
        return self.metrics[TIME] / 1e6

    @property
    def dram_bytes(self) -> float:
        return self.metrics[DRAM_READ] + self.metrics[DRAM_WRITTEN]


@dataclass(frozen=True)
class CounterRun:
    """One call of one peer: its kernels in launch order, each with an empty L2, and its requested bytes."""

    problem: AttentionProblem
    peer: str
    direction: Direction
    device: DeviceInfo
    recorded_at: Day
    kernels: tuple[KernelCounters, ...]
    counted: tuple[Operation, ...] = ()
    """Requested bytes, counted under TRACE by our kernels, and from its tensors for standard attention.

    Empty for other peers.
    """

    def __post_init__(self) -> None:
        for kernel in self.kernels:
            if lacking := [name for name in BASIC_METRICS if name not in kernel.metrics]:
                raise ValueError(f"{kernel.short_name} has no {lacking[0]}")
        if not sum(kernel.time_ms for kernel in self.kernels):
            raise ValueError("its kernels take no time")

    @property
    def dram_bytes(self) -> float:
        return sum(kernel.dram_bytes for kernel in self.kernels)

    @property
    def l2_bytes(self) -> float:
        return sum(kernel.metrics[L2] for kernel in self.kernels)


def parse_csv(text: str, metrics: tuple[str, ...]) -> list[KernelCounters]:
    """The kernels of ncu's raw page: a header line, a line of units, then one line per kernel.

    Metrics that ncu left empty are left out.
    """
    table = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    kernels = []
    for row in list(table)[1:]:
        texts = {name: (row.get(name) or "").replace(",", "") for name in metrics}
        # Other texts than numbers are "n/a", and "nan" for 0 / 0.
        values = {name: float(text) for name, text in texts.items() if re.fullmatch(r"[\d.e+-]+", text)}
        kernels.append(KernelCounters(row["Kernel Name"], values))
    return kernels


def split_at_markers(kernels: list[KernelCounters]) -> list[tuple[KernelCounters, ...]]:
    """The kernels of each call.

    A marker comes before each call; kernels before the first marker are dropped.
    """
    calls: list[list[KernelCounters]] = []
    for kernel in kernels:
        if MARKER in kernel.name:
            calls.append([])
        elif calls:
            calls[-1].append(kernel)
    return [tuple(call) for call in calls]


class CountersUnavailable(RuntimeError):
    """This machine gives no hardware counters. The message says why."""


def read_counters(problem: AttentionProblem, calls: list[tuple[str, str]]) -> tuple[CounterRun, ...]:
    """Counters of each (peer, direction) on the problem, in one run of ncu.

    Raises CountersUnavailable if this machine gives no counters, or not all of them.
    """
    ncu = find_ncu()
    if ncu is None:
        raise CountersUnavailable("ncu (NVIDIA Nsight Compute) is not on the PATH")
    metrics = available_metrics(ncu)
    found = split_at_markers(parse_csv(_run_ncu(ncu, problem, calls, metrics), metrics))
    if len(found) != len(calls):
        raise CountersUnavailable(f"ncu listed the kernels of {len(found)} calls, {len(calls)} were made")
    from kernels.device.runtime import BACKEND

    device, now, runs = device_info(BACKEND), utc_now(), []
    for (peer, direction), launched in zip(calls, found, strict=True):
        if not launched:  # a peer that does not take this problem
            continue
        try:
            counted = requested(problem, peer, direction)
        except (RuntimeError, InvalidProblem) as error:  # the counters are kept
            print(f"{peer} {direction} is not counted: {error}", file=sys.stderr)
            counted = ()
        try:
            runs.append(CounterRun(problem, peer, direction, device, now, launched, counted))
        except ValueError as error:
            raise CountersUnavailable(f"ncu gave no full set of counters: {error}") from error
    return tuple(runs)


def find_ncu() -> str | None:
    """Path of ncu, on the PATH or where the CUDA toolkit installs it; None if it is not there."""
    installed = sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu") + glob.glob("/usr/local/cuda*/bin/ncu"))
    return shutil.which("ncu") or (installed[-1] if installed else None)


def available_metrics(ncu: str) -> tuple[str, ...]:
    """BASIC_METRICS, and those of TENSOR_METRICS that this chip has by ncu's own list."""
    _, listed = _run_group([ncu, "--query-metrics"])
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    return BASIC_METRICS + tuple(metric for metric in TENSOR_METRICS if metric.split(".")[0] in names)


def _run_ncu(
    ncu: str, problem: AttentionProblem, calls: list[tuple[str, str]], metrics: tuple[str, ...]
) -> str:
    """The CSV that ncu wrote, in bytes, nanoseconds and percent.

    Clocks are left as they are; ncu flushes the caches before each kernel.
    """
    request = json.dumps({"problem": problem.as_dict(), "calls": calls})
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        options = {
            "--clock-control": "none",
            "--profile-from-start": "off",
            "--target-processes": "all",
            "--page": "raw",
            "--print-units": "base",
            "--metrics": ",".join(metrics),
            "--log-file": str(log),
        }
        child = [sys.executable, "-m", "kernels.measure.counters", request]
        exit_code, output = _run_group([ncu, "--csv", *itertools.chain(*options.items()), *child])
        text = log.read_text() if log.exists() else ""
    errors = [line for line in (text + "\n" + output).splitlines() if "==ERROR==" in line or "ERR_" in line]
    if "ERR_NVGPUCTRPERM" in " ".join(errors):
        raise CountersUnavailable("this machine does not allow hardware counters (ERR_NVGPUCTRPERM)")
    if exit_code != 0 or not any(line.startswith('"') for line in text.splitlines()):
        detail = errors or output.strip().splitlines()[-1:] or ["it printed nothing"]
        raise CountersUnavailable(f"ncu failed (exit status {exit_code}): {detail[0][:300]}")
    return text


def _run_group(command: list[str]) -> tuple[int, str]:
    """Exit status and output of ncu. After LIMIT_S it is killed together with the program it profiles."""
    limited = ["timeout", "--signal", "KILL", str(LIMIT_S), *command]  # kills the whole group, itself too
    ended = subprocess.run(limited, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    if ended.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
        raise CountersUnavailable(f"ncu did not end within {LIMIT_S} s")
    return ended.returncode, ended.stdout


def requested(problem: AttentionProblem, peer: str, direction: str) -> tuple[Operation, ...]:
    """Requested bytes of a peer's kernels or operations.

    Our kernels count them under TRACE, with their tuned tiles; those of standard attention come from its
    tensors. Empty for other peers, and for the backward kernels for Hopper, which are not
    counted here.
    """
    from kernels.algorithms import dispatch
    from kernels.device.runtime import DEVICE
    from kernels.primitives.tuning import HOPPER_KERNEL
    from kernels.problem.inputs import make_inputs
    from kernels.traffic.operations import count_operations

    if peer == "naive":
        return count_operations(problem, direction)
    if peer != "ours":
        return ()
    inputs = make_inputs(problem, DEVICE)
    if direction == "backward":
        plain = dispatch.package_for(*inputs) == dispatch.PLAIN
        kernels = {"_attn_bwd_preprocess": "dq", "_attn_bwd_dk_dv": "dk_dv", "_attn_bwd_dq": "dq"}
        return tuple(_traced(problem, "backward", *each) for each in kernels.items() if plain)
    if HOPPER_KERNEL and (config := dispatch.hopper.chosen_config(*inputs, problem.band)):
        from kernels.algorithms.flash3.run import requested_bytes

        tiles = f"{config.block_m}x{config.block_n} tiles"
        return (Operation("_attn_fwd_hopper", *requested_bytes(problem, config), tiles),)
    return (_traced(problem, "flash2", "_attn_fwd", "forward"),)


def _traced(problem: AttentionProblem, algorithm: str, name: str, tuned: str) -> Operation:
    """Requested bytes of one kernel, counted with the tiles that the tuned table gives it."""
    import torch

    from kernels.algorithms import run_traced
    from kernels.primitives.tuning import choose_config

    length, dtype = problem.q_len if tuned == "dk_dv" else problem.kv_len, getattr(torch, problem.dtype)
    config = choose_config(tuned, problem.head_dim, dtype, problem.mask != "full", length)
    trace = run_traced(problem.with_(block_m=config.block_m, block_n=config.block_n), algorithm)
    steps = trace.kernel == trace.kernels.index(name)
    read, written = trace.tensor_bytes_read[steps].sum(), trace.tensor_bytes_written[steps].sum()
    return Operation(name, int(read), int(written), f"{config.block_m}x{config.block_n} tiles")


def main(argv: list[str] | None = None) -> int:
    """The child process: make every call twice to warm up, then once more while ncu profiles it."""
    request = json.loads((argv or sys.argv[1:])[0])
    import torch

    from kernels.measure.measure import draw_tensors, make_call

    problem = AttentionProblem(**request["problem"])
    tensors = draw_tensors(problem, "cuda")
    prepared: list[Call] = []
    for peer, direction in request["calls"]:
        prepared.append(lambda: None)
        try:
            call = make_call(peer, direction, problem, tensors)
            call()
            call()
            prepared[-1] = call
        except RuntimeError as error:
            print(f"{peer} {direction}: {error}", file=sys.stderr)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in prepared:
        torch.cuda._sleep(1)
        call()
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
