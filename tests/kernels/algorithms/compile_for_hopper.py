"""A program that compiles the kernels for compute capability 9.0 without a GPU, and prints their PTX as JSON.

Every algorithm's own launch code runs; each launch compiles its kernel and goes no further: most only as far
as their source decides. Which sources are compiled is decided by PYTHONPATH. "traced" as an argument adds the
kernels with TRACE on, and what only PTX tells of one forward and one backward kernel for Hopper. "all" adds
the others, and what marks do to machine code.
"""

import functools
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
os.environ["TRITON_CACHE_DIR"] = FOLDER = tempfile.mkdtemp()

import torch

import kernels.device.backend

kernels.device.backend.choose_backend = lambda: "cuda"

from kernels.device import runtime

runtime.DEVICE = "cpu"

import kernels.primitives.assemble

# No launch fills the buffers of a trace.
kernels.primitives.assemble.assemble = lambda *given, **results: None

from kernels.algorithms import ALGORITHMS, runner_of
from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.primitives.launch import TileConfig
from kernels.primitives.marks import make_lane_buffers
from kernels.primitives.tuning import gluon_is_known
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend

HOPPER_CASES = ((64, "causal", 128), (64, "full", 192), (256, "causal", 128))
"""head_dim, mask and block_m: two warpgroups that compute, three, and two with one query tile at a time."""
BACKWARD_CASES = ((64, "causal"), (128, "window"), (160, "window"))
LANE_CASE = (64, "causal", 64, 64)
"""head_dim, mask and tiles with which the plain backward kernels are compiled with marks."""
TRACED, ALL = "traced" in sys.argv, "all" in sys.argv
SIZES = {"q_heads": 2, "q_len": 8, "kv_len": 300, "block_m": 64, "block_n": 64}


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
understood = defaultdict(list)
"""What the optimiser is given of each kernel that was launched."""
shared_bytes = {}
"""Shared memory of the last compiled version of each kernel."""
run = triton.JITFunction.run
add_stages = CUDABackend.add_stages
up_to_ptx = False
"""Whether kernels are compiled to PTX, or only as far as their source decides."""


class Understood(Exception):
    """What the optimiser would be given."""


def stop_early(module, metadata):
    raise Understood(str(module))


def without_ptxas(backend, stages, *rest):
    """Triton's stages, without ptxas, which takes longer than they do."""
    add_stages(backend, stages, *rest)
    stages["cubin"] = lambda ptx, metadata: b""
    if not up_to_ptx:
        stages["ttgir" if "ttir" in stages else "llir"] = stop_early


def compile_only(kernel, *arguments, grid, warmup, **options):
    try:
        result = run(kernel, *arguments, grid=grid, warmup=True, **options)
    except Understood as given:
        understood[kernel.__name__].append(str(given))
    else:
        understood[kernel.__name__].append(result.asm["ttir" if "ttir" in result.asm else "ttgir"])
        compiled[kernel.__name__].append(re.sub(r"//.*", "", result.asm["ptx"]))
        shared_bytes[kernel.__name__] = result.metadata.shared


def of_algorithm(name, traced, row=None):
    """{kernel: what the optimiser is given} of launches with masked tiles; a `row` traces its numbers."""
    global up_to_ptx
    up_to_ptx = TRACED and not traced and name == "flash2"  # Hopper's are compiled further down
    kv_heads = 2 if name == "flash3" else 1  # else its gradients would come from the plain kernels
    problem = AttentionProblem(mask="causal", **SIZES | {"kv_heads": kv_heads})
    problem = ALGORITHMS[name].with_own_tiles(problem)
    runner = runner_of(name)
    inputs, d_out = make_inputs(problem), make_d_output(problem)
    understood.clear()
    if traced:
        runner.run_traced(problem, **({} if row is None else {"row": row}))
    else:
        if hasattr(runner, "forward"):
            runner.forward(problem, *inputs)
        up_to_ptx = False
        if hasattr(runner, "gradients"):
            runner.gradients(problem, *inputs, d_out)
    return {kernel: given[0] for kernel, given in understood.items()}


def problem_of(head_dim, mask, **tiles):
    sizes = {"q_heads": 2, "kv_heads": 1, "q_len": 300, "kv_len": 300}
    return AttentionProblem(**sizes, head_dim=head_dim, mask=mask, **tiles)


def of_hopper(head_dim, mask, block_m, lanes=None):
    """PTX of the Hopper kernel, and the bytes of shared memory that it takes."""
    from kernels.algorithms.flash3.launch import flash_forward_hopper

    problem = problem_of(head_dim, mask)
    config = TileConfig(block_m, 128 if head_dim <= 128 else 64, 4 * (block_m // 64 + 1), 2)
    compiled.clear()
    inputs = make_inputs(problem)
    flash_forward_hopper(*inputs, band=problem.band, scale=problem.scale, config=config, lanes=lanes)
    return compiled["_attn_fwd_hopper"][0], shared_bytes["_attn_fwd_hopper"]


def of_hopper_backward(head_dim, mask, lanes=None):
    """{kernel: PTX} of the backward pass for Hopper, or of its sweep with marks."""
    from kernels.algorithms.flash3_backward.launch import HopperBackwardCall, flash_backward_hopper
    from kernels.algorithms.flash3_backward_wide.launch import flash_backward_wide

    problem = problem_of(head_dim, mask)
    query, key, value = make_inputs(problem)
    rest = (query, torch.zeros(query.shape[:3]), make_d_output(problem), problem.band, problem.scale)
    inputs = BackwardInputs(query, key, value, *rest)
    compiled.clear()
    if lanes is not None:
        HopperBackwardCall(inputs).sweep(lanes)
    else:
        (flash_backward_wide if head_dim > 128 else flash_backward_hopper)(inputs)
    return {kernel: ptx[0] for kernel, ptx in compiled.items()}


def of_backward(head_dim, mask, block_m, block_n, with_marks):
    """{kernel: [PTX, what ptxas says]} of the two plain backward kernels as their lanes are measured."""
    from kernels.algorithms.backward.run import call_of, marked_call

    problem = problem_of(head_dim, mask, block_m=block_m, block_n=block_n)
    marked = marked_call(problem, call_of(problem))
    compiled.clear()
    marked.call(*(launch.make_buffers() if with_marks else None for launch in marked.launches))
    return {kernel: [ptx[0], assembled(ptx[0])[0]] for kernel, ptx in compiled.items()}


def output_of(tool, *arguments):
    return subprocess.run([tool.path, *arguments], capture_output=True, text=True, check=True)


@functools.cache
def assembled(ptx):
    """What Triton's own ptxas says of the PTX: registers, spills and warnings; and the path of its file."""
    source, target = (os.path.join(tempfile.mkdtemp(dir=FOLDER), name) for name in ("k.ptx", "k.cubin"))
    with open(source, "w") as file:
        file.write(ptx)
    return output_of(triton.knobs.nvidia.ptxas, "-v", "-arch=sm_90a", source, "-o", target).stderr, target


def waits_and_exponentials(ptx):
    """The order of the machine code: "e" for an exponential, n for a wait until n products are under way."""
    code = output_of(triton.knobs.nvidia.nvdisasm, assembled(ptx)[1]).stdout
    found = re.findall(r"MUFU\.(E)X2|WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d)", code)
    return "".join(exponential.lower() or count for exponential, count in found)


triton.JITFunction.run = compile_only
CUDABackend.add_stages = without_ptxas
triton.runtime.driver.set_active(HopperWithoutAGpu())
torch.cuda.get_device_capability = lambda *args: (9, 0)
torch.cuda.get_device_properties = lambda *args: SimpleNamespace(multi_processor_count=132)
result = {}
for name, algorithm in ALGORITHMS.items():
    if algorithm.runs_in == "triton" and (algorithm.needs is None or gluon_is_known()):
        result[name] = of_algorithm(name, traced=False)
        if TRACED:
            row = 3 if algorithm.traces_a_row else None
            result[f"{name} traced"] = of_algorithm(name, traced=True, row=row)
up_to_ptx = True
if TRACED:
    result["PTX"] = {kernel: ptx[0] for kernel, ptx in compiled.items()}
if TRACED and gluon_is_known():
    cases = None if ALL else 1
    result["hopper"] = {"{} {} {}".format(*case): of_hopper(*case) for case in HOPPER_CASES[:cases]}
    result["bytes of the backward sweep"] = {}
    for head_dim, mask in BACKWARD_CASES[:cases]:
        for kernel, ptx in of_hopper_backward(head_dim, mask).items():
            if "wgmma" in ptx:
                result[f"{kernel} {head_dim} {mask}"] = [ptx, assembled(ptx)[0]]
        result["bytes of the backward sweep"][f"{head_dim} {mask}"] = shared_bytes["_attn_bwd_hopper"]
if ALL and gluon_is_known():
    marks = make_lane_buffers(2, 2, 2)  # Triton 3.6 takes a 1 in a tuple for no number
    of_both = (
        (result["hopper"]["64 causal 128"][0], of_hopper(64, "causal", 128, lanes=marks)[0]),
        (
            result["_attn_bwd_hopper 128 window"][0],
            of_hopper_backward(128, "window", marks)["_attn_bwd_hopper"],
        ),
    )
    result["order"] = [[waits_and_exponentials(ptx) for ptx in pair] for pair in of_both]
if ALL:
    result["backward lanes"] = [of_backward(*LANE_CASE, with_marks) for with_marks in (False, True)]
print(json.dumps(result))
