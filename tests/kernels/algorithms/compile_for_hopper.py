"""A program that compiles the kernels for compute capability 9.0 without a GPU, and prints their PTX as JSON.

Every algorithm's own launch code runs; each launch compiles its kernel and goes no further. Which sources are
compiled is decided by PYTHONPATH. "traced" as an argument adds the kernels with TRACE on.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "0"
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

import torch

import kernels.device.backend

kernels.device.backend.choose_backend = lambda: "cuda"

from kernels.device import runtime

runtime.DEVICE = "cpu"

from kernels.algorithms import ALGORITHMS, runner_of
from kernels.primitives.launch import TileConfig
from kernels.primitives.marks import make_lane_buffers
from kernels.primitives.tuning import gluon_is_known
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs

import triton
from triton.backends.compiler import GPUTarget

HOPPER_CASES = (
    (64, "full", 192),
    (64, "causal", 128),
    (96, "window", 128),
    (128, "causal", 128),
    (256, "causal", 128),
)
BACKWARD_CASES = ((64, "full"), (64, "causal"), (96, "window"), (128, "full"), (128, "causal"))
LANE_CASES = ((64, "causal", 64, 64), (64, "full", 64, 128), (128, "full", 64, 128), (80, "causal", 64, 32))
"""head_dim, mask and tiles with which the plain backward kernels are compiled with marks."""
WIDE_CASES = ((256, "full"), (256, "causal"), (160, "window"))
COMPARED = (64, "causal", 128)
"""The case that is also compiled without tracing."""
TRACED = "traced" in sys.argv
SIZES = {"q_heads": 2, "kv_heads": 1, "q_len": 8, "kv_len": 300, "block_m": 64, "block_n": 64}


class HopperWithoutAGpu:
    """The parts of Triton's driver that compiling uses."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


compiled = defaultdict(list)
"""PTX of each kernel that was launched, by its name."""
shared_bytes = {}
"""Shared memory of the last compiled version of each kernel."""
run = triton.JITFunction.run


def compile_only(kernel, *arguments, grid, warmup, **options):
    result = run(kernel, *arguments, grid=grid, warmup=True, **options)
    compiled[kernel.__name__].append(re.sub(r"//.*", "", result.asm["ptx"]))
    shared_bytes[kernel.__name__] = result.metadata.shared


def of_algorithm(name, traced, row=None):
    """{kernel: PTX} of what an algorithm launches on a causal problem, some of whose tiles are masked.

    With a `row` its numbers are traced too.
    """
    problem = ALGORITHMS[name].with_own_tiles(AttentionProblem(mask="causal", **SIZES))
    runner = runner_of(name)
    inputs, d_out = make_inputs(problem), make_d_output(problem)
    compiled.clear()
    if traced:
        with contextlib.suppress(Exception):  # the buffers stay empty, so no trace can be made
            runner.run_traced(problem, **({} if row is None else {"row": row}))
    else:
        if hasattr(runner, "forward"):
            runner.forward(problem, *inputs)
        if hasattr(runner, "gradients"):
            runner.gradients(problem, *inputs, d_out)
    return {kernel: ptx[0] for kernel, ptx in compiled.items()}


def of_hopper(head_dim, mask, block_m, lanes=None):
    """PTX of the Hopper kernel, and the bytes of shared memory that it takes."""
    from kernels.algorithms.flash3.launch import flash_forward_hopper

    problem = AttentionProblem(q_heads=2, kv_heads=1, q_len=300, kv_len=300, head_dim=head_dim, mask=mask)
    config = TileConfig(block_m, 128 if head_dim <= 128 else 64, 4 * (block_m // 64 + 1), 2)
    compiled.clear()
    inputs = make_inputs(problem)
    flash_forward_hopper(*inputs, band=problem.band, scale=problem.scale, config=config, lanes=lanes)
    return compiled["_attn_fwd_hopper"][0], shared_bytes["_attn_fwd_hopper"]


def of_hopper_backward(head_dim, mask):
    """{kernel: PTX} of the backward pass for Hopper."""
    if head_dim > 128:
        from kernels.algorithms.flash3_backward_wide.launch import flash_backward_wide as flash_backward
    else:
        from kernels.algorithms.flash3_backward.launch import flash_backward_hopper as flash_backward

    n = 384 if mask == "full" else 300
    problem = AttentionProblem(q_heads=2, kv_heads=1, q_len=n, kv_len=n, head_dim=head_dim, mask=mask)
    query, key, value = make_inputs(problem)
    lse, d_out = torch.zeros(query.shape[:3]), make_d_output(problem)
    compiled.clear()
    flash_backward(query, key, value, query, lse, d_out, band=problem.band, scale=problem.scale)
    return {kernel: ptx[0] for kernel, ptx in compiled.items()}


def of_marked_sweep(head_dim, mask):
    """PTX of the backward sweep for Hopper with marks."""
    from kernels.algorithms.flash3_backward import run as sweep

    problem = AttentionProblem(q_heads=2, kv_heads=1, q_len=300, kv_len=300, head_dim=head_dim, mask=mask)
    query, key, value = make_inputs(problem)
    rest = (query, torch.zeros(query.shape[:3]), make_d_output(problem), problem.band, problem.scale)
    compiled.clear()
    sweep.HopperBackwardCall(query, key, value, *rest).sweep(make_lane_buffers(1, 1, 1))
    return compiled["_attn_bwd_hopper"][0]


def of_backward(head_dim, mask, block_m, block_n, with_marks):
    """{kernel: [PTX, what ptxas says]} of the two plain backward kernels as their lanes are measured."""
    from kernels.algorithms.backward.run import call_of, marked_call

    sizes = {"q_heads": 2, "kv_heads": 1, "q_len": 300, "kv_len": 300}
    problem = AttentionProblem(head_dim=head_dim, mask=mask, block_m=block_m, block_n=block_n, **sizes)
    marked = marked_call(problem, call_of(problem))
    compiled.clear()
    marked.call(*(launch.make_buffers() if with_marks else None for launch in marked.launches))
    return {kernel: [ptx[0], ptxas_log(ptx[0])] for kernel, ptx in compiled.items()}


def assembled(ptx, folder):
    """(log, file): what Triton's own ptxas says of the PTX, and the machine code that it writes there."""
    source, target = (os.path.join(folder, name) for name in ("kernel.ptx", "kernel.cubin"))
    with open(source, "w") as file:
        file.write(ptx)
    command = [triton.knobs.nvidia.ptxas.path, "-v", "-arch=sm_90a", source, "-o", target]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr, target


def ptxas_log(ptx):
    """What ptxas says of the PTX: registers, spills and warnings."""
    with tempfile.TemporaryDirectory() as folder:
        return assembled(ptx, folder)[0]


def waits_and_exponentials(ptx):
    """The order of the machine code: "e" for an exponential, n for a wait until n products are under way."""
    with tempfile.TemporaryDirectory() as folder:
        command = [triton.knobs.nvidia.nvdisasm.path, assembled(ptx, folder)[1]]
        code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"MUFU\.(E)X2|WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d)", code)
    return "".join(exponential.lower() or count for exponential, count in found)


triton.JITFunction.run = compile_only
triton.runtime.driver.set_active(HopperWithoutAGpu())
torch.cuda.get_device_capability = lambda *args: (9, 0)
torch.cuda.get_device_properties = lambda *args: SimpleNamespace(multi_processor_count=132)
result = {}
shared_of_sweeps = {}
for name, algorithm in ALGORITHMS.items():
    if algorithm.runs_in == "triton" and (algorithm.needs is None or gluon_is_known()):
        result[name] = of_algorithm(name, traced=False)
        if TRACED:
            result[f"{name} traced"] = of_algorithm(name, traced=True)
            result[f"{name} row"] = of_algorithm(name, traced=True, row=3) if algorithm.has_figure else {}
if gluon_is_known():
    result["hopper"] = {
        "{} {} {}".format(*case): of_hopper(*case) for case in HOPPER_CASES if TRACED or case == COMPARED
    }
    result["hopper backward"] = of_hopper_backward(*COMPARED[:2])
    if TRACED:
        for head_dim, mask in BACKWARD_CASES + WIDE_CASES:
            for kernel, ptx in of_hopper_backward(head_dim, mask).items():
                result[f"{kernel} {head_dim} {mask}"] = [ptx, ptxas_log(ptx)]
            shared_of_sweeps[f"{head_dim} {mask}"] = shared_bytes["_attn_bwd_hopper"]
        result["bytes of the backward sweep"] = shared_of_sweeps
if TRACED:
    if gluon_is_known():
        marks = make_lane_buffers(1, 1, 1)
        of_both = (
            (of_hopper(*COMPARED)[0], of_hopper(*COMPARED, lanes=marks)[0]),
            (of_hopper_backward(128, "full")["_attn_bwd_hopper"], of_marked_sweep(128, "full")),
        )
        result["order"] = [[waits_and_exponentials(ptx) for ptx in pair] for pair in of_both]
    result["backward lanes"] = {
        " ".join(map(str, case)): [of_backward(*case, with_marks) for with_marks in (False, True)]
        for case in LANE_CASES
    }
print(json.dumps(result))
