"""Times attention over several GPUs. Every rank of torch.distributed's default group calls this."""

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from kernels.attention.context_parallel import context_parallel_attention, context_parallel_decode
from kernels.attention.context_parallel.run import options_of
from kernels.attention.context_parallel.transport import clear_places, places_bytes
from kernels.attention.flash_attention import flash_attention
from kernels.device.backend import device_info, utc_now
from kernels.device.clocks import Timing, timing_of
from kernels.device.gpu_state import summarise, torch_gpu_uuid, watch_gpu
from kernels.device.runtime import BACKEND, DEVICE
from kernels.measure.ranks import DECODE, ONE_GPU, TORCH, RanksTime
from kernels.problem import AttentionProblem

FAR = 0.1
"""Errors of O in bfloat16 on normal inputs lie far below it, and wrong results far above."""
SAMPLE_MS, MOST_CALLS, MOST_SAMPLES = 40.0, 8, 12
Call = Callable[..., Any]


def measure_ranks(
    problem: AttentionProblem, method: str, layout: str, directions: Iterable[str], budget_s: float = 1.0
) -> list[RanksTime]:
    """Time one method on all ranks. What it refuses is said; the ranks must refuse alike."""
    uuid = torch_gpu_uuid() if BACKEND == "cuda" else None
    found = []
    for direction in directions:
        about = (problem, dist.get_world_size(), method, layout, direction, dist.get_backend())
        given: dict[str, Any] = {}
        with watch_gpu(uuid) as readings:
            try:
                given["timing"], given["peak_extra_bytes"] = _timed(
                    problem, method, layout, direction, budget_s
                )
            except (ValueError, RuntimeError, NotImplementedError, AssertionError) as error:
                given["refused"] = (str(error) or type(error).__name__).splitlines()[0][:200]
        state = summarise(readings)
        found.append(RanksTime(*about, device_info(BACKEND), utc_now(), gpu=state, **given))
    return found


def _timed(
    problem: AttentionProblem, method: str, layout: str, direction: str, budget_s: float
) -> tuple[Timing, int]:
    clear_places()
    alone = method == ONE_GPU or method in TORCH
    parts = 1 if alone else dist.get_world_size()
    shapes = [(problem.q_heads, problem.q_len // (1 if method == DECODE else parts))]
    shapes += [(problem.kv_heads, problem.kv_len // parts)] * 2
    torch.manual_seed(dist.get_rank())
    dtype = getattr(torch, problem.dtype)
    tensors = [
        torch.randn(problem.batch, count, length, problem.head_dim, dtype=dtype, device=DEVICE)
        for count, length in shapes
    ]
    if method in TORCH:
        return _in_torch(tensors, problem, method, direction, budget_s)
    asked = options_of(problem)
    shared = asked | {"method": method, "layout": layout, "check": False}
    ways: dict[str, tuple[Call, dict[str, Any]]] = {
        ONE_GPU: (flash_attention, asked),
        DECODE: (context_parallel_decode, {"scale": problem.scale, "check": False}),
    }
    attention, options = ways.get(method, (context_parallel_attention, shared))
    return _sampled(_call(lambda *given: attention(*given, **options), tensors, direction), budget_s)


def _in_torch(
    tensors: list[Tensor], problem: AttentionProblem, method: str, direction: str, budget_s: float
) -> tuple[Timing, int]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import set_rotate_method
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if problem.mask not in ("full", "causal"):
        raise ValueError("torch's context_parallel takes no window")
    mesh = init_device_mesh(tensors[0].device.type, (dist.get_world_size(),))
    set_rotate_method(TORCH[method])
    options: dict[str, Any] = {
        "is_causal": problem.is_causal,
        "enable_gqa": problem.q_heads != problem.kv_heads,
    }
    with (
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
        context_parallel(mesh, buffers=tensors, buffer_seq_dims=[2] * 3, no_restore_buffers=set(tensors)),
    ):
        # looked up at each call, because torch puts another function there inside of context_parallel
        def attention(*given: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(*given, **options)

        theirs, ours = attention(*tensors), context_parallel_attention(*tensors, **options)
        clear_places()  # else ours would count as memory of torch's
        if (apart := _largest(float((theirs - ours).abs().max()))) > FAR:
            raise ValueError(
                f"its O is {apart:.2g} off; what it gives is not attention to the whole sequence"
            )
        return _sampled(_call(attention, tensors, direction), budget_s)


def _call(attention: Call, tensors: list[Tensor], direction: str) -> Call:
    if direction == "forward":

        def forward() -> None:
            with torch.no_grad():
                attention(*tensors)

        return forward
    for tensor in tensors:
        tensor.requires_grad_()
    out = attention(*tensors)
    d_out = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, tensors, d_out, retain_graph=True)


def _sampled(call: Call, budget_s: float) -> tuple[Timing, int]:
    """The time of a call on the slowest rank, and the most bytes that a rank allocates in it.

    Every rank makes as many calls as the others.
    """
    peak = 0
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        peak = -torch.cuda.memory_allocated()
    slower, first = math.inf, _largest(_in_a_row(call, 2))  # the second call of a launcher is written down
    while first < slower / 2:  # it compiled
        slower, first = first, _largest(_in_a_row(call, 1))
    if torch.cuda.is_available():
        peak += torch.cuda.max_memory_allocated() + places_bytes()
    calls = max(1, min(MOST_CALLS, round(SAMPLE_MS / first)))
    wanted = min(math.floor(1e3 * budget_s / (calls * first)), MOST_SAMPLES)
    times = [_largest(_in_a_row(call, calls)) for _ in range(wanted)]
    return timing_of(times or [first]), int(_largest(float(peak)))


def _in_a_row(call: Call, calls: int) -> float:
    """Milliseconds per call on this rank, after all ranks have met."""
    if BACKEND != "cuda":
        dist.barrier()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        return 1e3 * (time.perf_counter() - began) / calls
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    dist.barrier()
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / calls


def _largest(own: float) -> float:
    found = torch.tensor([own], dtype=torch.float64, device=DEVICE)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)
