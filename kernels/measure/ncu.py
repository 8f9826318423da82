"""Read hardware counters with NVIDIA's `ncu`, around a child process that makes the calls.

The counters are of the device, not of a program: some machines do not allow them, and then `read_counters` says so.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from kernels import ROOT
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
"""Problems whose counters are recorded: S is ten times the L2, and every tensor of attention itself fits in it."""
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
    """Counters of each (peer, direction) on the problem, in one run of ncu. Raises CountersUnavailable where there are none."""
    ncu = find_ncu()
    if ncu is None:
        raise CountersUnavailable("ncu (NVIDIA Nsight Compute) is not on the PATH")
    try:
        text, used = _run_ncu(ncu, problem, calls, available_metrics(ncu))
    except CountersUnavailable as error:
        if not error.other_metrics_may_work:
            raise
        text, used = _run_ncu(
            ncu, problem, calls, BASIC_METRICS
        )  # a metric that this ncu does not know costs the others nothing
    kernels = parse_csv(text, used)
    if lacking := next(
        (
            f"{kernel.short_name} has no {name}"
            for kernel in kernels
            for name in BASIC_METRICS
            if name not in kernel.metrics
        ),
        None,
    ):
        raise CountersUnavailable(f"ncu gave no full set of counters: {lacking}")
    groups = split_at_markers(kernels)
    if len(groups) != len(calls):
        raise CountersUnavailable(f"ncu listed the kernels of {len(groups)} calls, {len(calls)} were made")
    return _counter_runs(problem, calls, groups)


def find_ncu() -> str | None:
    """Path of the program, on the PATH or where the CUDA toolkit puts it; None where there is none."""
    places = sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu") + glob.glob("/usr/local/cuda*/bin/ncu"))
    return shutil.which("ncu") or (places[-1] if places else None)


def available_metrics(ncu: str) -> tuple[str, ...]:
    """The wanted metrics that this chip has, by ncu's own list."""
    try:
        listed = subprocess.run(
            [ncu, "--query-metrics"], capture_output=True, text=True, timeout=LIMIT_S
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return BASIC_METRICS
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    return BASIC_METRICS + tuple(metric for metric in MORE_METRICS if metric.split(".")[0] in names)


def _run_ncu(
    ncu: str, problem: AttentionProblem, calls: list[tuple[str, str]], metrics: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """The CSV that ncu wrote, and the metrics asked for. Clocks are left as they are; caches are flushed before each kernel."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        command = [ncu, "--clock-control", "none", "--profile-from-start", "off", "--target-processes", "all", "--csv", "--page", "raw",
                   "--print-units", "base", "--metrics", ",".join(metrics), "--log-file", str(log),
                   sys.executable, "-m", "kernels.measure.ncu", json.dumps({"problem": problem.as_dict(), "calls": calls})]  # fmt: skip
        exit_code, said = _run_group(command)
        text = log.read_text() if log.exists() else ""
    errors = [line for line in (text + "\n" + said).splitlines() if "==ERROR==" in line or "ERR_" in line]
    if "ERR_NVGPUCTRPERM" in " ".join(errors):
        raise CountersUnavailable("this machine does not allow hardware counters (ERR_NVGPUCTRPERM)")
    if exit_code != 0 or not any(line.startswith('"') for line in text.splitlines()):
        detail = errors or said.strip().splitlines()[-1:] or ["it said nothing"]
        raise CountersUnavailable(
            f"ncu failed (exit status {exit_code}): {detail[0][:300]}", other_metrics_may_work=True
        )
    return text, metrics


def _run_group(command: list[str]) -> tuple[int, str]:
    """Exit status and output of ncu, which is ended with the program it looks at when it takes too long."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=ROOT, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise CountersUnavailable(f"ncu did not end within {LIMIT_S} s") from None
    return process.returncode, said


def _counter_runs(
    problem: AttentionProblem, calls: list[tuple[str, str]], groups: list[tuple[KernelCounters, ...]]
) -> tuple[CounterRun, ...]:
    from kernels.device.backend import device_info, utc_now
    from kernels.device.runtime import BACKEND

    device, recorded_at = device_info(BACKEND), utc_now()
    runs = []
    for (peer, direction), kernels in zip(calls, groups, strict=True):
        if kernels:  # a peer that does not take this problem launched nothing
            try:
                counted = requested(problem, peer, direction)
            except (RuntimeError, InvalidProblem) as error:  # the counters are worth keeping without it
                print(f"{peer} {direction} is not counted: {error}", file=sys.stderr)
                counted = ()
            runs.append(CounterRun(problem, peer, direction, device, recorded_at, kernels, counted))
    return tuple(runs)


def requested(problem: AttentionProblem, peer: str, direction: str) -> tuple[Operation, ...]:
    """Bytes that the peer asks for (counted): by our kernels under TRACE with their tuned tiles, of naive attention from its tensors."""
    from kernels.traffic.operations import count_operations

    if peer == "naive":
        return count_operations(problem, direction)
    if peer != "ours":
        return ()
    if direction == "forward":
        return (_hopper_kernel(problem) or _traced_kernel(problem, "flash2", "forward", "_attn_fwd"),)
    kernels = {"_attn_bwd_preprocess": "dq", "_attn_bwd_dk_dv": "dk_dv", "_attn_bwd_dq": "dq"}
    return tuple(_traced_kernel(problem, "backward", tuned, name) for name, tuned in kernels.items())


def _hopper_kernel(problem: AttentionProblem) -> Operation | None:
    """What forward_hopper.py asks for, where that is what `flash_attention` runs; else None."""
    from kernels.attention.flash_attention import HOPPER_KERNEL
    from kernels.device.runtime import DEVICE
    from kernels.problem.inputs import make_inputs

    if not HOPPER_KERNEL:
        return None
    from kernels.algorithms.flash3.launch import chosen_config
    from kernels.algorithms.flash3.run import requested_bytes

    config = chosen_config(*make_inputs(problem, DEVICE), problem.band)
    return config and Operation(
        "_attn_fwd_hopper", *requested_bytes(problem, config), f"{config.block_m}x{config.block_n} tiles"
    )


def _traced_kernel(problem: AttentionProblem, algorithm: str, tuned: str, name: str) -> Operation:
    """What one kernel asks for with the tiles that the tuned table gives it."""
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
    """The child: make every call once to compile, then once more while ncu looks on."""
    request = json.loads((argv or sys.argv[1:])[0])
    import torch

    from kernels.measure.measure import draw_tensors, make_call

    problem = AttentionProblem.from_dict(request["problem"])
    *inputs, d_output = draw_tensors(problem, "cuda")
    prepared = []
    for peer, direction in request["calls"]:
        try:
            call = make_call(peer, direction, problem, tuple(inputs), d_output)
            call()
            call()
        except RuntimeError as error:
            print(f"{peer} {direction}: {error}", file=sys.stderr)
            call = None
        prepared.append(call)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in prepared:
        torch.cuda._sleep(1)
        if call is not None:
            call()
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
