"""One rank of a test of context_parallel: `python ranks.py RANK WORLD FOLDER`. Prints what fails as JSON."""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from kernels.attention.context_parallel import context_parallel_attention
from kernels.attention.context_parallel.layout import divisor_of, shard, unshard
from kernels.oracle.rule import compare_gradients, compare_output
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs

SHAPE = {"q_len": 48, "kv_len": 48, "head_dim": 16, "q_heads": 4, "kv_heads": 4, "dtype": "float32"}
CASES = (
    ({"mask": "causal", "q_heads": 8}, "ring", "zigzag"),
    ({"mask": "window", "window_left": 9, "window_right": 2}, "ring", "striped"),
    ({"mask": "causal", "kv_len": 96, "head_dim": 40, "dtype": "float16"}, "all_gather", "contiguous"),
    ({"mask": "causal"}, "all_to_all", "zigzag"),
    ({}, "all_gather", "zigzag"),
)


def check(rank, world, method, layout, change):
    """What is wrong with this rank's part of one case."""
    problem = AttentionProblem(**SHAPE | change)
    if problem.q_len % divisor_of(world, layout) or problem.kv_len % divisor_of(world, layout):
        return []
    inputs, d_out = make_inputs(problem), make_d_output(problem)
    if method == "all_to_all" and problem.kv_heads % world:
        return []
    parts = [shard(tensor, rank, world, layout).requires_grad_() for tensor in inputs]
    window = (problem.window_left, problem.window_right) if problem.mask == "window" else None
    options = {"is_causal": problem.is_causal, "window": window, "enable_gqa": True}
    out = context_parallel_attention(*parts, method=method, layout=layout, **options)
    gradients = torch.autograd.grad(out, parts, shard(d_out, rank, world, layout))
    gathered = [[None] * world for _ in range(4)]
    for found, part in zip(gathered, (out.detach(), *gradients), strict=True):
        dist.all_gather_object(found, part)
    if rank:
        return []
    whole = [unshard(parts, layout) for parts in gathered]
    compared = {"O": compare_output(problem, whole[0], inputs)}
    compared |= compare_gradients(problem, tuple(whole[1:]), inputs, d_out)
    wrong = [name for name, comparison in compared.items() if not comparison.report.passes]
    return [
        f"{method} {layout} {change}: {name} {compared[name].report if name in compared else ''}"
        for name in wrong
    ]


def refusals(rank, world):
    """What is not refused on every rank alike."""
    wrong = []
    tensors = [torch.zeros(1, 2, 8, 16) for _ in range(3)]
    calls = {
        "layout": (tensors, {"layout": "spiral"}),
        "length": ([t[:, :, :7] for t in tensors], {"layout": "zigzag"}) if world > 1 else None,
        "the same on all": ([t[:, :, : 8 - 2 * (rank == 1)] for t in tensors], {"layout": "contiguous"}),
        "one rank of another type": ([t.double() if rank == 1 else t for t in tensors], {}),
        "method": (tensors, {"method": "telepathy"}),
    }
    for name, (given, options) in filter(lambda call: call[1], calls.items()):
        try:
            context_parallel_attention(*given, **options)
        except ValueError:
            continue
        wrong.append(f"not refused: {name}")
    return wrong


def main():
    rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=120),
    )
    torch.set_num_threads(1)
    failures = refusals(rank, world)
    for change, method, layout in CASES:
        failures += check(rank, world, method, layout, change)
    if "--die" in sys.argv:
        ready = Path(folder, "ready")
        if rank == 1:
            while not ready.exists():  # rank 0 has all that this one sent
                time.sleep(0.05)
            sys.exit(7)
        ready.touch()
        began = time.monotonic()
        try:
            context_parallel_attention(*(torch.zeros(1, 2, 8, 16) for _ in range(3)), layout="contiguous")
        except RuntimeError:
            failures += [] if time.monotonic() - began < 121 else ["a lost rank is noticed too late"]
        else:
            failures.append("a lost rank is not noticed")
    print(json.dumps(failures), flush=True)
    if "--die" in sys.argv:
        os._exit(0)  # after a lost rank, gloo's threads may abort at the end of Python
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
