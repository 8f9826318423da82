"""Run as a program: compile the forward kernels for compute capability 9.0 without a GPU, and print the PTX as JSON.

`_attn_fwd` for each mask three times: as it is, with TRACE on, and from a copy of the source with every `if TRACE` removed.
`_attn_fwd_hopper` for some shapes, named "head_dim mask block_m".
"""

import ast
import importlib.util
import json
import os
import re
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "0"
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

import torch

import kernels.device.backend

kernels.device.backend.choose_backend = lambda: "cuda"

from kernels.algorithms.flash2 import forward
from kernels.algorithms.flash3 import forward_hopper
from kernels.primitives import recorder
from kernels.primitives.launch import TileConfig
from kernels.primitives.tuning import gluon_is_known
from kernels.problem import AttentionProblem, tiles
from kernels.problem.inputs import make_inputs

import triton
from triton.backends.compiler import GPUTarget

HOPPER_CASES = ((64, "full", 192), (64, "causal", 128), (96, "window", 128), (128, "causal", 128))


class HopperWithoutAGpu:
    """As much of Triton's driver as compiling asks for."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


class Compiled(Exception):
    """Carries the compiled kernel out of the launcher, which would go on to run it."""


class CompileOnly:
    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def launch(*args, **arguments):
            raise Compiled(self.kernel.warmup(*args, grid=grid, **arguments))

        return launch


def without_tracing(source):
    """The source with the body of every `if TRACE...:` left out."""
    dropped = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id.startswith("TRACE"):
            dropped |= set(range(node.lineno, node.end_lineno + 1))
    assert dropped
    return "\n".join(line for number, line in enumerate(source.splitlines(), 1) if number not in dropped)


def load_stripped(folder, module):
    """The module without tracing, from a file of its own."""
    path = folder / f"{module.__name__.rsplit('.', 1)[-1]}_stripped.py"
    path.write_text(without_tracing(Path(module.__file__).read_text()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ptx(module, mask, traced):
    problem = AttentionProblem(q_len=256, kv_len=256, mask=mask)
    left, right = tiles.band(problem)
    rows = recorder.TileRows("", "q_tile", problem.block_m, problem.q_len)
    arguments = (
        module.REQUESTS,
        module.ROW_FIELDS,
        rows,
        (rows,),
        problem.q_tiles,
        problem.kv_tiles,
        problem.head_dim,
    )
    recording = recorder.make_recorder("_attn_fwd", *arguments) if traced else None
    kernel, module._attn_fwd = module._attn_fwd, CompileOnly(module._attn_fwd)
    try:
        config = TileConfig(problem.block_m, problem.block_n)
        module.flash_forward(
            *make_inputs(problem),
            left=left,
            right=right,
            scale=problem.scale,
            config=config,
            recorder=recording,
        )
    except Compiled as compiled:
        text = compiled.args[0].asm["ptx"]
        return re.sub(r"//.*", "", text)
    finally:
        module._attn_fwd = kernel


def hopper_ptx(module, head_dim, mask, block_m):
    problem = AttentionProblem(q_heads=2, kv_heads=1, q_len=300, kv_len=300, head_dim=head_dim, mask=mask)
    query, key, value = make_inputs(problem)
    left, right = tiles.band(problem)
    config = TileConfig(block_m, 128, 4 * (block_m // 64 + 1), 2)
    mask = {"left": left, "right": right, "scale": problem.scale}
    tensors, arguments = module.launch_arguments(
        query, key, value, query, torch.empty(query.shape[:3]), config=config, **mask
    )
    return re.sub(r"//.*", "", module._attn_fwd_hopper.warmup(*tensors, grid=(1,), **arguments).asm["ptx"])


triton.runtime.driver.set_active(HopperWithoutAGpu())
torch.cuda.get_device_capability = lambda *args: (9, 0)
recorder.DEVICE = "cpu"
with tempfile.TemporaryDirectory() as folder:
    stripped, stripped_hopper = (load_stripped(Path(folder), module) for module in (forward, forward_hopper))
    result = {
        mask: {
            "plain": {"ptx": ptx(forward, mask, False)},
            "traced": {"ptx": ptx(forward, mask, True)},
            "stripped": {"ptx": ptx(stripped, mask, False)},
        }
        for mask in ("full", "causal")
    }
    if gluon_is_known():
        result["64 causal 128 stripped"] = {"ptx": hopper_ptx(stripped_hopper, 64, "causal", 128)}
for case in HOPPER_CASES if gluon_is_known() else ():
    result["{} {} {}".format(*case)] = {"ptx": hopper_ptx(forward_hopper, *case)}
print(json.dumps(result))
