"""Reads hardware counters with NVIDIA's `ncu`, which runs a child process that makes the calls.

Some machines do not allow programs to read the counters of their GPU. Then `read_counters` raises
CountersUnavailable.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from kernels import ROOT
from kernels.device.clocks import Call
from kernels.measure.counters import (
    BASIC_METRICS,
    MORE_METRICS,
    CounterRun,
    KernelCounters,
    parse_csv,
    split_at_markers,
)
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


class CountersUnavailable(RuntimeError):
    """This machine gives no hardware counters. The message says why."""

    def __init__(self, message: str, other_metrics_may_work: bool = False) -> None:
        self.other_metrics_may_work = other_metrics_may_work
        super().__init__(message)


def read_counters(problem: AttentionProblem, calls: list[tuple[str, str]]) -> tuple[CounterRun, ...]:
    """Counters of each (peer, direction) on the problem, in one run of ncu.

    Raises CountersUnavailable if this machine gives no counters, or not all of them.
    """
    ncu = find_ncu()
    if ncu is None:
        raise CountersUnavailable("ncu (NVIDIA Nsight Compute) is not on the PATH")
    metrics = available_metrics(ncu)
    try:
        text = _run_ncu(ncu, problem, calls, metrics)
    except CountersUnavailable as error:
        if not error.other_metrics_may_work:
            raise
        metrics = BASIC_METRICS  # without the metrics that this ncu may not know
        text = _run_ncu(ncu, problem, calls, metrics)
    kernels = parse_csv(text, metrics)
    _check_complete(kernels)
    kernels_of_calls = split_at_markers(kernels)
    if len(kernels_of_calls) != len(calls):
        raise CountersUnavailable(
            f"ncu listed the kernels of {len(kernels_of_calls)} calls, {len(calls)} were made"
        )
    return _counter_runs(problem, calls, kernels_of_calls)


def _check_complete(kernels: list[KernelCounters]) -> None:
    """Raise CountersUnavailable if a kernel lacks one of BASIC_METRICS."""
    for kernel in kernels:
        for name in BASIC_METRICS:
            if name not in kernel.metrics:
                raise CountersUnavailable(
                    f"ncu gave no full set of counters: {kernel.short_name} has no {name}"
                )


def find_ncu() -> str | None:
    """Path of ncu, on the PATH or where the CUDA toolkit installs it; None if it is not there."""
    installed = sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu") + glob.glob("/usr/local/cuda*/bin/ncu"))
    return shutil.which("ncu") or (installed[-1] if installed else None)


def available_metrics(ncu: str) -> tuple[str, ...]:
    """BASIC_METRICS, and those of MORE_METRICS that this chip has by ncu's own list."""
    command = [ncu, "--query-metrics"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S).stdout
    except (OSError, subprocess.SubprocessError):
        return BASIC_METRICS
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    return BASIC_METRICS + tuple(metric for metric in MORE_METRICS if metric.split(".")[0] in names)


def _run_ncu(
    ncu: str, problem: AttentionProblem, calls: list[tuple[str, str]], metrics: tuple[str, ...]
) -> str:
    """The CSV that ncu wrote. Clocks are left as they are; ncu flushes the caches before each kernel."""
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
        child = [sys.executable, "-m", "kernels.measure.ncu", request]
        exit_code, output = _run_group([ncu, "--csv", *itertools.chain(*options.items()), *child])
        text = log.read_text() if log.exists() else ""
    errors = [line for line in (text + "\n" + output).splitlines() if "==ERROR==" in line or "ERR_" in line]
    if "ERR_NVGPUCTRPERM" in " ".join(errors):
        raise CountersUnavailable("this machine does not allow hardware counters (ERR_NVGPUCTRPERM)")
    if exit_code != 0 or not any(line.startswith('"') for line in text.splitlines()):
        detail = errors or output.strip().splitlines()[-1:] or ["it printed nothing"]
        raise CountersUnavailable(
            f"ncu failed (exit status {exit_code}): {detail[0][:300]}", other_metrics_may_work=True
        )
    return text


def _run_group(command: list[str]) -> tuple[int, str]:
    """Exit status and output of ncu. After LIMIT_S it is killed together with the program it profiles."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise CountersUnavailable(f"ncu did not end within {LIMIT_S} s") from None
    return process.returncode, output


def _counter_runs(
    problem: AttentionProblem,
    calls: list[tuple[str, str]],
    kernels_of_calls: list[tuple[KernelCounters, ...]],
) -> tuple[CounterRun, ...]:
    from kernels.device.backend import device_info, utc_now
    from kernels.device.runtime import BACKEND

    device, recorded_at = device_info(BACKEND), utc_now()
    runs = []
    for (peer, direction), kernels in zip(calls, kernels_of_calls, strict=True):
        if kernels:  # a peer that does not take this problem launched nothing
            try:
                counted = requested(problem, peer, direction)
            except (RuntimeError, InvalidProblem) as error:  # the counters are kept
                print(f"{peer} {direction} is not counted: {error}", file=sys.stderr)
                counted = ()
            runs.append(CounterRun(problem, peer, direction, device, recorded_at, kernels, counted))
    return tuple(runs)


def requested(problem: AttentionProblem, peer: str, direction: str) -> tuple[Operation, ...]:
    """Requested bytes of a peer's kernels or operations.

    Our kernels count them under TRACE, with their tuned tiles; those of naive attention come from its
    tensors. Empty for other peers, and for the backward kernels for Hopper, which are not
    counted here.
    """
    from kernels.algorithms.backward.choice import PLAIN, package_for
    from kernels.device.runtime import DEVICE
    from kernels.problem.inputs import make_inputs
    from kernels.traffic.operations import count_operations

    if peer == "naive":
        return count_operations(problem, direction)
    if peer != "ours":
        return ()
    if direction == "forward":
        return (_hopper_kernel(problem) or _traced_kernel(problem, "flash2", "forward", "_attn_fwd"),)
    if package_for(*make_inputs(problem, DEVICE)) != PLAIN:
        return ()
    kernels = {"_attn_bwd_preprocess": "dq", "_attn_bwd_dk_dv": "dk_dv", "_attn_bwd_dq": "dq"}
    return tuple(_traced_kernel(problem, "backward", tuned, name) for name, tuned in kernels.items())


def _hopper_kernel(problem: AttentionProblem) -> Operation | None:
    """Requested bytes of the Hopper kernel if `flash_attention` runs it on this problem; else None."""
    from kernels.device.runtime import DEVICE
    from kernels.primitives.tuning import HOPPER_KERNEL
    from kernels.problem.inputs import make_inputs

    if not HOPPER_KERNEL:
        return None
    from kernels.algorithms.flash3.launch import chosen_config
    from kernels.algorithms.flash3.run import requested_bytes

    config = chosen_config(*make_inputs(problem, DEVICE), problem.band)
    if config is None:
        return None
    tiles = f"{config.block_m}x{config.block_n} tiles"
    return Operation("_attn_fwd_hopper", *requested_bytes(problem, config), tiles)


def _traced_kernel(problem: AttentionProblem, algorithm: str, tuned: str, name: str) -> Operation:
    """Requested bytes of one kernel, counted with the tiles that the tuned table gives it."""
    import torch

    from kernels.algorithms import run_traced
    from kernels.primitives.tuning import choose_config

    length = problem.q_len if tuned == "dk_dv" else problem.kv_len
    config = choose_config(
        tuned, problem.head_dim, getattr(torch, problem.dtype), problem.mask != "full", length
    )
    trace = run_traced(problem.with_(block_m=config.block_m, block_n=config.block_n), algorithm)
    steps = trace.kernel == trace.kernels.index(name)
    read, written = (
        int(counted[steps].sum()) for counted in (trace.tensor_bytes_read, trace.tensor_bytes_written)
    )
    return Operation(name, read, written, f"{config.block_m}x{config.block_n} tiles")


def main(argv: list[str] | None = None) -> int:
    """The child process: make every call twice to warm up, then once more while ncu profiles it."""
    request = json.loads((argv or sys.argv[1:])[0])
    import torch

    from kernels.measure.measure import draw_tensors, make_call

    problem = AttentionProblem.from_dict(request["problem"])
    tensors = draw_tensors(problem, "cuda")
    prepared: list[Call | None] = []
    for peer, direction in request["calls"]:
        try:
            call = make_call(peer, direction, problem, tensors)
            call()
            call()
        except RuntimeError as error:
            print(f"{peer} {direction}: {error}", file=sys.stderr)
            prepared.append(None)
        else:
            prepared.append(call)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for prepared_call in prepared:
        torch.cuda._sleep(1)
        if prepared_call is not None:
            prepared_call()
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
