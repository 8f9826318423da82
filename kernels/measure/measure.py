"""Time and peak memory of attention implementations on this machine's device, in one run, peers in turn.

`kernels.device.clocks` says how both are taken. Triton's interpreter is never timed as a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernels.device.backend import device_info, utc_now
from kernels.device.clocks import Call, Clock, clock_for, outer_percentiles, timing_of
from kernels.device.energy import Meter
from kernels.device.gpu_state import summarise, torch_gpu_uuid, watch_gpu
from kernels.device.memory import is_out_of_memory
from kernels.measure.measurement import DIRECTIONS, Measurement, PeerResult
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem, InvalidProblem

if TYPE_CHECKING:
    import torch

    CallTensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]

LONGEST_REASON = 200
"""Characters of an implementation's own error that a result repeats."""
OVERHEAD_BUDGET_S = 0.1
"""Seconds per peer for the time of a call with one query and one key."""


def measure(
    problem: AttentionProblem,
    peers: Iterable[str] | None = None,
    directions: Iterable[str] = ("forward",),
    progress: Callable[[str], None] = lambda peer: None,
    budget_s: float | None = None,
    energy: bool = False,
) -> Measurement:
    """Time and memory of the named peers, or of those that the device has, on seeded inputs of the problem.

    `progress` is called with the name of the next peer, then with "timing". `budget_s` is the time of the
    timed calls of each peer. With `energy`, each peer also repeats its call for 2 s if the driver counts
    energy. Raises InvalidProblem for an unknown peer or direction.
    """
    from kernels.device.runtime import BACKEND

    names, directions = _peer_names(peers, BACKEND), tuple(directions)
    if unknown := [direction for direction in directions if direction not in DIRECTIONS]:
        raise InvalidProblem("directions", unknown[0], f"expected some of {', '.join(DIRECTIONS)}")
    clock = clock_for(BACKEND)
    results: list[PeerResult] = []
    with clock.context(), watch_gpu(torch_gpu_uuid() if BACKEND == "cuda" else None) as readings:
        bench = _Bench(problem, draw_tensors(problem, clock.device), clock, clock.meter() if energy else None)
        for direction in directions:
            results += bench.measure_direction(names, direction, progress, budget_s)
    return Measurement(problem, device_info(BACKEND), utc_now(), tuple(results), summarise(readings))


def _peer_names(peers: Iterable[str] | None, backend: str) -> list[str]:
    here = {name: peer for name, peer in PEERS.items() if backend in peer.backends}
    if peers is None:
        return [name for name, peer in here.items() if peer.is_installed and peer.by_default]
    names = list(peers)
    if unknown := [name for name in names if name not in here]:
        raise InvalidProblem("peers", unknown[0], f"on this device expected some of {', '.join(here)}")
    return names


@dataclass(frozen=True)
class _Bench:
    problem: AttentionProblem
    tensors: CallTensors
    clock: Clock
    meter: Meter | None

    def measure_direction(
        self, names: list[str], direction: str, progress: Callable[[str], None], budget_s: float | None
    ) -> list[PeerResult]:
        """Memory of each peer one by one, then the time of all peers in turn, then the energy of each."""
        results: dict[str, PeerResult] = {}
        calls: dict[str, Call] = {}
        for name in names:
            progress(name)
            results[name], call = self._try_peer(name, direction)
            if call is not None:
                calls[name] = call
        progress("timing")
        overheads = self._overheads_ms(list(calls), direction)
        samples = self.clock.sample_in_rounds(calls, budget_s)
        for name, own in samples.items():
            ratios = [naive / mine for naive, mine in zip(samples.get("naive", ()), own, strict=False)]
            results[name] = replace(
                results[name],
                timing=timing_of(own),
                naive_ratio=outer_percentiles(ratios) if ratios else None,
                overhead_ms=overheads.get(name),
                sustained=self.meter.sustain(calls[name], self.clock.mark) if self.meter else None,
                version=PEERS[name].version,
            )
        return list(results.values())

    def _overheads_ms(self, names: list[str], direction: str) -> dict[str, float]:
        """Milliseconds of each peer's call with one query and one key, if the clock times such a cost."""
        if self.clock.device != "cpu":  # a graph has no fixed cost in Python
            return {}
        smallest = smallest_problem(self.problem)
        tensors = draw_tensors(smallest, self.clock.device)
        calls = {name: make_call(name, direction, smallest, tensors) for name in names}
        for call in calls.values():
            call()  # warm up
        timings = self.clock.time_in_turn(calls, OVERHEAD_BUDGET_S)
        return {name: timing.median_ms for name, timing in timings.items()}

    def _try_peer(self, name: str, direction: str) -> tuple[PeerResult, Call | None]:
        """Warm the peer up, and take its memory and the time of a call.

        A peer that refuses the problem gives its reason and no call.
        """

        def refused(reason: str, out_of_memory: bool = False) -> tuple[PeerResult, None]:
            return PeerResult(name, refused=reason, direction=direction, out_of_memory=out_of_memory), None

        if direction == "backward" and not PEERS[name].differentiable:
            return refused("forward only")
        if name == "naive" and (reason := refuse_naive(self.problem, self.clock.free_bytes(), direction)):
            return refused(reason, out_of_memory=True)
        try:
            call = make_call(name, direction, self.problem, self.tensors)
            call()
            peak = self.clock.peak_extra_bytes(call)
            result = PeerResult(name, peak_extra_bytes=peak, direction=direction)
            if in_a_row := self.clock.call_time(call):
                result = replace(result, host_ms=in_a_row.host_ms, call_ms=in_a_row.wall_ms)
            return result, self.clock.prepare(call)
        except Exception as error:
            # An implementation or its compiler may raise anything; the other peers still run.
            if "CUDA error" in str(error):
                raise  # the CUDA context is lost, so every further call would fail
            full = is_out_of_memory(error)
            words = str(error).split(". ")[0] if full else str(error)
            first = (words.splitlines() or [type(error).__name__])[0]
            return refused(first[:LONGEST_REASON], full)


def draw_tensors(problem: AttentionProblem, device: str) -> CallTensors:
    """Seeded query, key, value and gradient of the output, of the problem's shapes and type.

    Normal inputs for a GPU are drawn on it, and differ from those of `make_inputs`, which would take longer
    than all peers together.
    """
    import torch

    from kernels.problem.inputs import make_d_output, make_inputs

    if device == "cpu" or problem.inputs != "normal":
        return *make_inputs(problem, device), make_d_output(problem, device)
    generator = torch.Generator(device).manual_seed(problem.seed)
    shapes = (problem.q_shape, problem.kv_shape, problem.kv_shape, problem.q_shape)
    dtype = getattr(torch, problem.dtype)
    query, key, value, d_output = (
        torch.randn(shape, generator=generator, device=device).to(dtype) for shape in shapes
    )
    return query, key, value, d_output


def smallest_problem(problem: AttentionProblem) -> AttentionProblem:
    """One query and one key of the same kind: what takes the same calls and almost no work."""
    group = problem.q_heads // problem.kv_heads
    return problem.with_(batch=1, q_heads=group, kv_heads=1, q_len=1, kv_len=1, inputs="normal", documents="")


def make_call(name: str, direction: str, problem: AttentionProblem, tensors: CallTensors) -> Call:
    """What is timed: one forward pass of the peer, or one backward pass over a graph that is kept."""
    import torch

    attend = PEERS[name].make(problem)
    *inputs, d_output = tensors
    if direction == "forward":
        return lambda: attend(*inputs)
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    out = attend(*leaves)
    return lambda: torch.autograd.grad(out, leaves, d_output, retain_graph=True)


def naive_peak_bytes(problem: AttentionProblem, direction: str = "forward") -> int:
    """Modelled peak memory of standard attention beyond its inputs: (q_len, kv_len) matrices of all heads.

    Forward there are two: S and P. Backward there are four: P, which autograd kept, dP, dS and a temporary
    one.
    """
    matrices = 2 if direction == "forward" else 4
    return matrices * problem.scores * problem.itemsize


def refuse_naive(problem: AttentionProblem, free_bytes: int, direction: str = "forward") -> str | None:
    needed = naive_peak_bytes(problem, direction)
    return None if needed <= free_bytes else f"needs {needed / 1e9:,.1f} GB, {free_bytes / 1e9:,.1f} GB free"
