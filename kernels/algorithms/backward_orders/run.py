"""Runs the two loop orders: traced on a problem's own inputs, or on given tensors for a check."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kernels.algorithms.backward.entry import PREPROCESS
from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.backward.launch import BackwardCall
from kernels.algorithms.backward_orders.entry import KV_OUTER_ENTRY, Q_OUTER_ENTRY
from kernels.algorithms.backward_orders.kv_outer import _attn_bwd_kv_outer
from kernels.algorithms.backward_orders.q_outer import _attn_bwd_q_outer
from kernels.algorithms.flash2.run import forward
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import Gradients
from kernels.primitives.assemble import assemble
from kernels.primitives.launch import config_of, launch_on_tiles
from kernels.primitives.recorder import Recorder, make_recorder
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace import LaunchInfo, Trace
from kernels.trace.algorithm import Algorithm

Arguments = tuple[dict[str, Tensor], tuple[Tensor, ...], tuple[tuple[Tensor, Tensor], ...]]
"""Tensors of a launch that are cut into tiles, its others, and (gradient, float32 sum) of each sum in HBM."""


def _sum_of(tensor: Tensor) -> Tensor:
    """A float32 sum in HBM. torch writes its zeros before the launch, and rounds it after it."""
    return torch.zeros(tensor.shape, dtype=torch.float32, device=tensor.device)


def kv_outer_arguments(call: BackwardCall) -> Arguments:
    """Of `_attn_bwd_kv_outer`, for a call whose D is there."""
    sum_dq = _sum_of(call.inputs.query)
    tensors = call.tensors | {"sum": sum_dq, "dk": call.d_key, "dv": call.d_value}
    return tensors, (call.inputs.lse, call.delta), ((call.d_query, sum_dq),)


def q_outer_arguments(call: BackwardCall) -> Arguments:
    """Of `_attn_bwd_q_outer`, which computes D itself."""
    given, sum_dk, sum_dv = call.inputs, _sum_of(call.inputs.key), _sum_of(call.inputs.value)
    tensors = {"q": given.query, "k": given.key, "v": given.value, "o": given.out, "do": given.d_out}
    tensors |= {"dq": call.d_query, "sum": sum_dk}
    return tensors, (sum_dv, given.lse), ((call.d_key, sum_dk), (call.d_value, sum_dv))


@dataclass(frozen=True)
class LoopOrder:
    """A runner: see `kernels.algorithms.Runner`."""

    entry: Algorithm
    kernel: Any
    arguments: Callable[[BackwardCall], Arguments]

    forward = staticmethod(forward)
    """O and lse by the forward kernel of FlashAttention-2."""

    def run_traced(self, problem: AttentionProblem, row: int | None = None) -> Trace:
        """Run the forward kernel, then those of the entry with TRACE on, on the problem's own inputs."""
        call = self._call(problem, *make_inputs(problem, DEVICE), make_d_output(problem, DEVICE))
        launches = []
        results = {"d_query": call.d_query, "d_key": call.d_key, "d_value": call.d_value}
        if PREPROCESS in self.entry.kernels:
            recorder = make_recorder(PREPROCESS, problem, row=row)
            launches.append((recorder, call.preprocess(recorder)))
            results["delta"] = call.delta
        grid = (problem.key_heads, problem.group_size * problem.q_tiles * problem.kv_tiles)
        recorder = make_recorder(self.entry.kernels[-1], problem, grid=grid, row=row)
        launches.append((recorder, self._launch(problem, call, recorder)))
        return assemble(self.entry, problem, launches, output=call.inputs.out, lse=call.inputs.lse, **results)

    def gradients(self, problem: AttentionProblem, *tensors: Tensor) -> Gradients:
        """dQ, dK and dV with the problem's mask and tiles, of query, key, value and d_out."""
        call = self._call(problem, *tensors)
        if PREPROCESS in self.entry.kernels:
            call.preprocess()
        self._launch(problem, call)
        return call.d_query, call.d_key, call.d_value

    def _call(self, problem: AttentionProblem, *tensors: Tensor) -> BackwardCall:
        query, key, value, d_out = tensors
        results = forward(problem, query, key, value)
        inputs = BackwardInputs(query, key, value, *results, d_out, problem.band, problem.scale)
        return BackwardCall(inputs)

    def _launch(
        self, problem: AttentionProblem, call: BackwardCall, recorder: Recorder | None = None
    ) -> LaunchInfo:
        tensors, others, sums = self.arguments(call)
        info = launch_on_tiles(
            self.kernel,
            (problem.key_heads,),
            tensors,
            *others,
            band=problem.band,
            scale=problem.scale,
            config=replace(config_of(problem), num_stages=1),  # no load ahead of the stores of a step before
            recorder=recorder,
            described=(),
        )
        for gradient, total in sums:
            gradient.copy_(total)
        return info


KV_OUTER = LoopOrder(KV_OUTER_ENTRY, _attn_bwd_kv_outer, kv_outer_arguments)
Q_OUTER = LoopOrder(Q_OUTER_ENTRY, _attn_bwd_q_outer, q_outer_arguments)
