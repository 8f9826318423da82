"""One of four ranks of a test of context_parallel: `python ranks.py RANK FOLDER`. Prints failures as JSON."""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from kernels.attention.context_parallel import context_parallel_attention
from kernels.attention.sequence_layout import shard, unshard
from kernels.oracle.rule import compare_gradients, compare_output
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs

SHAPE = {"q_len": 48, "kv_len": 48, "head_dim": 16, "q_heads": 1, "kv_heads": 1, "dtype": "float32"}
CASES = (
    ({"mask": "causal", "q_heads": 2}, "ring", "zigzag"),
    ({"mask": "window", "window_left": 9, "window_right": 2}, "ring", "striped"),
    ({"mask": "causal", "kv_len": 96, "head_dim": 40, "dtype": "float16"}, "all_gather", "zigzag"),
    ({"mask": "causal", "q_heads": 4, "kv_heads": 4}, "all_to_all", "zigzag"),
    ({}, "all_gather", "contiguous"),
)
WORLD, LEAVES = 4, 7
GROUPS = (range(4), range(3), range(2, 4))
"""Ranks that share a sequence out: all of them, three, and two that are others in the world."""


def check(group, method, layout, change):
    """What is wrong with this rank's part of one case; `group` is None for all ranks."""
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    problem = AttentionProblem(**SHAPE | change)
    if method == "all_to_all" and problem.kv_heads % world:
        return []
    inputs, d_out = make_inputs(problem), make_d_output(problem)
    parts = [shard(tensor, rank, world, layout).requires_grad_() for tensor in inputs]
    window = (problem.window_left, problem.window_right) if problem.mask == "window" else None
    options = {"is_causal": problem.is_causal, "window": window, "enable_gqa": True}
    out = context_parallel_attention(*parts, mesh=group, method=method, layout=layout, **options)
    gradients = torch.autograd.grad(out, parts, shard(d_out, rank, world, layout))
    gathered = [[None] * world for _ in range(4)]
    for found, part in zip(gathered, (out.detach(), *gradients), strict=True):
        dist.all_gather_object(found, part, group=group)
    if rank:
        return []
    whole = [unshard(parts, layout) for parts in gathered]
    compared = {"O": compare_output(problem, whole[0], inputs)}
    compared |= compare_gradients(problem, tuple(whole[1:]), inputs, d_out)
    return [
        f"{world} {method} {layout} {change}: {name} {each.report}"
        for name, each in compared.items()
        if not each.report.passes
    ]


def refusals(rank):
    """What is not refused on every rank alike."""
    wrong = []
    tensors = [torch.zeros(1, 2, 8, 16) for _ in range(3)]
    calls = {
        "layout": (tensors, {"layout": "spiral"}),
        "length": ([t[:, :, :7] for t in tensors], {"layout": "zigzag"}),
        "the same on all": ([t[:, :, : 8 - 2 * (rank == 1)] for t in tensors], {"layout": "contiguous"}),
        "one rank of another type": ([t.double() if rank == 1 else t for t in tensors], {}),
        "method": (tensors, {"method": "telepathy"}),
    }
    for name, (given, options) in calls.items():
        try:
            context_parallel_attention(*given, **options)
        except ValueError:
            continue
        wrong.append(f"not refused: {name}")
    return wrong


def notices_a_lost_rank(rank, group, folder):
    """What is wrong on the first rank of the last group when the last rank leaves."""
    ready = Path(folder, "ready")
    if rank == WORLD - 1:
        while not ready.exists():  # the other has all that this one sent
            time.sleep(0.05)
        return []
    ready.touch()
    try:
        context_parallel_attention(*[torch.zeros(1, 2, 8, 16)] * 3, mesh=group, layout="contiguous")
    except RuntimeError:
        return []
    return ["a lost rank is not noticed"]


def main():
    rank, folder = int(sys.argv[1]), sys.argv[2]
    store = {"init_method": f"file://{folder}/store", "timeout": timedelta(seconds=120)}
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, **store)
    torch.set_num_threads(1)
    failures = refusals(rank)
    for ranks in GROUPS:
        group = dist.new_group([*ranks]) if len(ranks) < WORLD else None
        for change, method, layout in CASES if rank in ranks else ():
            failures += check(group, method, layout, change)
    dist.barrier()
    if rank in GROUPS[-1]:
        failures += notices_a_lost_rank(rank, group, folder)
    print(json.dumps(failures), flush=True)
    # After a lost rank, gloo's threads may abort at the end of Python.
    os._exit(LEAVES if rank == WORLD - 1 else 0)


if __name__ == "__main__":
    main()
