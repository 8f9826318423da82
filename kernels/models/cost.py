"""What the attention of a whole model costs: by formula, but times and energies from measurements."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.measure.measure import naive_peak_bytes
from kernels.measure.measurement import Measurement
from kernels.measure.nearest import AMOUNTS, NAIVE, Estimate, estimate
from kernels.models.model import Model
from kernels.traffic.modelled import LSE_BYTES, attention_flops, compulsory_bytes

OURS = "ours"
Estimates = tuple[tuple[int, Estimate], ...]
"""(layers, time or energy of one), per kind of layer; empty if a kind has none."""


@dataclass(frozen=True)
class Costs:
    """One prefill or one decoding step of all layers, by standard attention or by a fused kernel."""

    layer_memory_bytes: int
    """Modelled, of the layer that needs most: S and P of standard attention, O and lse of a fused kernel."""
    moved_bytes: int
    """Modelled: each matrix once per kernel; of a fused kernel each input and result once."""
    flops: float
    """Modelled; standard attention computes hidden scores too."""
    times: Estimates
    energies: Estimates
    ran_out: bool
    """Whether a GPU had too little memory for just this layer when it was to be measured."""

    @property
    def ms(self) -> float | None:
        return _sum(self.times)

    @property
    def joules(self) -> float | None:
        return _sum(self.energies)


def _sum(estimates: Estimates) -> float | None:
    return sum(layers * each.amount for layers, each in estimates) if estimates else None


def layer_memory(model: Model, length: int, batch: int, peer: str, phase: str = "prefill") -> int:
    """Modelled bytes beyond its inputs of the layer that needs most; see `Costs`."""
    problems = [model.problem(length, phase, kind, batch) for kind in model.kinds]
    if peer == NAIVE:
        return max(map(naive_peak_bytes, problems))
    rows = max(problem.heads * problem.q_len for problem in problems)
    return rows * (model.head_dim * problems[0].itemsize + LSE_BYTES)


def costs(
    model: Model, length: int, batch: int, phase: str, peer: str, measurements: Iterable[Measurement]
) -> Costs:
    """What `peer` costs; NAIVE is standard attention, any other name a fused kernel."""
    measurements, moved, flops, ran_out = tuple(measurements), 0, 0.0, False
    found: dict[str, list[tuple[int, Estimate]]] = {unit: [] for unit in AMOUNTS}
    for kind, layers in model.kinds.items():
        problem = model.problem(length, phase, kind, batch)
        is_naive = peer == NAIVE
        moved += layers * (standard_bytes if is_naive else compulsory_bytes)(problem)
        flops += layers * attention_flops(problem.with_(mask="full") if is_naive else problem, "forward")
        tried = (each.result(peer) for each in measurements if each.problem == problem)
        ran_out |= any(result.out_of_memory for result in tried if result)
        for unit, known in found.items():
            if each := estimate(problem, peer, measurements, unit=unit):
                known.append((layers, each))
    times, energies = (tuple(known) if len(known) == len(model.kinds) else () for known in found.values())
    memory = layer_memory(model, length, batch, peer, phase)
    return Costs(memory, moved, flops, times, energies, ran_out)
