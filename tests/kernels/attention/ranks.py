"""What each rank of a test of context_parallel does."""

import os
import time

import torch
import torch.distributed as dist

from kernels.attention.context_parallel import context_parallel_attention, context_parallel_decode
from kernels.attention.context_parallel.log import NO_LOG, Log
from kernels.attention.context_parallel.run import options_of
from kernels.attention.context_parallel.shards import shard, unshard
from kernels.oracle.rule import compare_gradients, compare_output
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.problem.ranks import divisor_of

SHAPE = {"q_len": 48, "kv_len": 48, "head_dim": 16, "q_heads": 1, "kv_heads": 1, "dtype": "float32"}
CASES = (
    ({"mask": "causal", "q_heads": 2}, "ring", "zigzag"),
    ({"mask": "window", "window_left": 9, "window_right": 2}, "ring", "striped"),
    ({"mask": "causal", "kv_len": 96, "head_dim": 40, "dtype": "float16"}, "all_gather", "zigzag"),
    ({"mask": "causal", "q_heads": 4, "kv_heads": 4}, "all_to_all", "zigzag"),
    ({}, "all_gather", "contiguous"),
)
RANKS = 4
GROUPS = {range(4): 5, range(3): 1, range(2, 4): 1}
"""Ranks that share a sequence out, and how many of the cases they try."""


def failures(device, progress):
    """What is wrong in any of the cases, with groups of four, three and two ranks."""
    found = refusals(device, dist.get_rank())
    for ranks, count in GROUPS.items():
        group = dist.new_group([*ranks]) if len(ranks) < RANKS else None
        for change, method, layout in CASES[:count] if dist.get_rank() in ranks else ():
            found += check(device, group, method, layout, change)
        if dist.get_rank() in ranks:
            found += decodes(device, group) + (repeats(device, group) if len(ranks) == 2 else [])
    dist.barrier()
    return found


def check(device, group, method, layout, change):
    """What is wrong with the whole of one case; `group` is None for all ranks."""
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    problem = AttentionProblem(**SHAPE | change)
    if problem.q_len % divisor_of(world, layout) or problem.kv_len % divisor_of(world, layout):
        return []
    inputs, d_out = make_inputs(problem, device), make_d_output(problem, device)
    if method == "all_to_all" and problem.kv_heads % world:
        return []
    parts = [shard(tensor, rank, world, layout).requires_grad_() for tensor in inputs]
    options = options_of(problem) | {"mesh": group, "method": method, "layout": layout}
    out = context_parallel_attention(*parts, **options)
    gradients = torch.autograd.grad(out, parts, shard(d_out, rank, world, layout))
    gathered = [[None] * world for _ in range(4)]
    for found, part in zip(gathered, (out.detach(), *gradients), strict=True):
        dist.all_gather_object(found, part.cpu(), group=group)
    if rank:
        return []
    whole = [unshard(parts, layout) for parts in gathered]
    compared = {"O": compare_output(problem, whole[0], inputs)}
    compared |= compare_gradients(problem, tuple(whole[1:]), inputs, d_out)
    wrong = [f"{name} {each.report}" for name, each in compared.items() if not each.report.passes]
    return [f"{world} {method} {layout} {change}: {words}" for words in wrong]


def repeats(device, group):
    tensors = make_inputs(AttentionProblem(**SHAPE), device)
    parts = [shard(tensor, dist.get_rank(group), dist.get_world_size(group)) for tensor in tensors]
    logs = NO_LOG, AtStep(lambda: time.sleep(0.3))  # the second time one rank is slow
    first, second = (context_parallel_attention(*parts, mesh=group, is_causal=True, log=log) for log in logs)
    return [] if torch.equal(first, second) else ["not the same bits again"]


def decodes(device, group):
    """What is wrong with decoding on a cache of which the last rank holds nothing."""
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    problem = AttentionProblem(**SHAPE | {"q_len": 1, "kv_len": 40, "q_heads": 2})
    query, key, value = make_inputs(problem, device)
    size = -(-problem.kv_len // (world - 1))
    own = slice(rank * size, (rank + 1) * size)
    out = context_parallel_decode(query, key[:, :, own], value[:, :, own], mesh=group)
    report = compare_output(problem, out, (query, key, value)).report
    return [] if report.passes else [f"decoding on {world}: {report}"]


def refusals(device, rank):
    """What is not refused on every rank alike."""
    wrong = []
    tensors = [torch.zeros(1, 2, 8, 16, device=device) for _ in range(3)]
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


class AtStep(Log):
    """Something that rank 1 does when it comes to its second chunk."""

    def __init__(self, does):
        self.does = does

    def go_to(self, step):
        if step == 1 and dist.get_rank() == 1:
            self.does()


def one_ends(device, progress):
    context_parallel_attention(*zeros(device), log=AtStep(lambda: os._exit(7)))


def one_fails(device, progress):
    if dist.get_rank() == 1:
        raise ZeroDivisionError("planted")
    context_parallel_attention(*zeros(device))


def one_hangs(device, progress):
    progress(0 if dist.get_rank() == 1 else 1)
    time.sleep(600 if dist.get_rank() == 1 else 0)
    context_parallel_attention(*zeros(device))


def zeros(device):
    return [torch.zeros(1, 2, 8, 16, device=device)] * 3
