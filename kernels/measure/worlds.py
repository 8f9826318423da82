"""What attention over many GPUs costs each rank, modelled from recordings of one GPU and of its NVLink.

What a rank sends and keeps is read off `kernels/attention/context_parallel/`; dK and dV travel in float32.
"hybrid" is not built: all-to-all in a node, so that each GPU has some heads of the node's tokens, then a ring
between nodes (Jacobs et al. 2023 with Liu et al. 2023).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kernels.measure.ranks import ONE_GPU, RanksTime
from kernels.trace.ranks import RanksTrace
from kernels.traffic.modelled import BACKWARD_FLOPS, LSE_BYTES

METHODS = ("ring", "all_gather", "all_to_all", "hybrid")
NODE, TILE, MOST_PARTS = 8, 128, 5
"""GPUs of a node (DGX H200), rows of a program (Hopper kernels), results kept before a merge (`merge.py`)."""


@dataclass(frozen=True)
class Link:
    """What a GPU sends over, in one direction."""

    name: str
    bytes_per_s: float
    latency_s: float
    source: str

    def seconds(self, size: float, hops: int = 1) -> float:
        """Latency of each hop and then all bytes, as NCCL models a message (its src/graph/tuning.cc)."""
        return hops * self.latency_s + size / self.bytes_per_s


NVLINK_BYTES_PER_S = 450e9
"""Half of the 900 GB/s that the NVIDIA H200 datasheet gives for both directions. Not what the model takes."""
NVLINK_S, NETWORK_S = 8.4e-6 + 3.4e-6, 8.4e-6 + 9.6e-6
"""Base and hop of a ring with protocol Simple, in NCCL's src/graph/tuning.cc."""
_SOURCE = "NVIDIA ConnectX-7 manual, one adapter per GPU; latency of NCCL"
INFINIBAND = tuple(
    Link(f"InfiniBand, {rate} Gb/s", rate * 1e9 / 8, NETWORK_S, _SOURCE) for rate in (400, 200)
)


@dataclass(frozen=True)
class Machine:
    """What was recorded of a GPU.

    `rates` has the FLOP/s of one GPU alone, by query heads, key heads, direction and tokens. A chunk adds
    `launch_s`, and its merge `merge_s` per byte of O, or backward `backward_merge_s` per byte of K and V.
    """

    device: str
    sm_count: int
    rates: dict[tuple[int, int, str, int], float]
    merge_s: float
    backward_merge_s: float
    launch_s: float
    nvlink: Link

    @classmethod
    def of(cls, times: Iterable[RanksTime], traces: dict[str, RanksTrace]) -> "Machine":
        """Rates from the times of one GPU; the rest are medians over spans of the traces.

        NVLink's rate is that of dK and dV in the ring, the largest messages.
        """
        ring, gather = traces["ring.zigzag.backward"], traces["all_gather.zigzag.forward"]
        sent, own = ring.span_bytes.max(), World(ring.ranks, ring.problem.q_len)
        attend = gather.of("attend")
        gaps = gather.span_begin_ns[attend][1:] - gather.span_end_ns[attend][:-1]
        rate = sent / _median_s(ring, ring.span_bytes == sent)
        merge_s = _median_s(gather, gather.of("merge")) / gather.ranks / own.q_bytes
        added_s = _median_s(ring, ring.of("merge")) / own.kv_bytes
        launch_s = 1e-9 * float(np.median(gaps[np.diff(gather.span_rank[attend]) == 0]))
        rates = {
            (t.problem.q_heads, t.problem.kv_heads, t.direction, t.problem.q_len): 1e12 * t.tflops / t.ranks
            for t in times
            if t.method == ONE_GPU and t.tflops and t.problem.q_len == t.problem.kv_len
        }
        nvlink = Link("NVLink", rate, NVLINK_S, "recorded; latency of NCCL")
        return cls(ring.device.name, ring.device.sm_count or 1, rates, merge_s, added_s, launch_s, nvlink)


def _median_s(trace: RanksTrace, chosen: np.ndarray) -> float:
    return 1e-9 * float(np.median((trace.span_end_ns - trace.span_begin_ns)[chosen]))


@dataclass(frozen=True)
class World:
    """A causal sequence in bfloat16, shared out over ranks; the default heads are those of Llama-3-8B.

    `between` joins nodes. Chunks travel beside the work on the one before. Raises ValueError for what a
    method cannot share out.
    """

    ranks: int
    tokens: int
    direction: str = "forward"
    method: str = "ring"
    layout: str = "zigzag"
    between: Link = INFINIBAND[0]
    q_heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128

    def __post_init__(self) -> None:
        wrong = self.method not in METHODS or self.ranks < 2 or self.rows < TILE
        if self.method in ("all_to_all", "hybrid") and not wrong:
            wrong = bool(self.kv_heads % self.group or self.ranks % self.group)
            wrong |= (self.steps > 1) != (self.method == "hybrid")
        if wrong:
            given = f"{self.method}, {self.tokens} tokens on {self.ranks} ranks, {self.kv_heads} key heads"
            least = f"{' | '.join(METHODS)}, {TILE} tokens or more on each of 2 ranks or more"
            more = f"all_to_all up to {NODE} that divide the key heads, hybrid two or more nodes of {NODE}"
            raise ValueError(f"{given}; accepted: {least}, {more}")

    backward = property(lambda self: self.direction == "backward")
    rows = property(lambda self: self.tokens / self.ranks)
    group = property(lambda self: min(self.ranks, NODE) if self.method in ("all_to_all", "hybrid") else 1)
    """Ranks that exchange heads; `steps`: chunks of keys that a rank computes; `q_bytes`: as many has O."""
    steps = property(lambda self: self.ranks // self.group)
    q_bytes = property(lambda self: 2 * self.rows * self.q_heads * self.head_dim)
    kv_bytes = property(lambda self: 4 * self.rows * self.kv_heads * self.head_dim)
    lse_bytes = property(lambda self: LSE_BYTES * self.rows * self.q_heads)
    input_bytes = property(lambda self: self.kv_bytes + self.q_bytes * (3 if self.backward else 1))
    """Q, K and V; backward also O and dO."""

    def ideal_s(self, machine: Machine) -> float:
        """All GPUs at the rate that one has alone, at the longest recorded length up to this one.

        4 FLOP per feature, head and pair that is seen, backward 2.5 times as many (Dao 2023, section 4.1).
        """
        shape = (self.q_heads, self.kv_heads, self.direction)
        rates = sorted((key[3], rate) for key, rate in machine.rates.items() if key[:3] == shape)
        rate = max([each for each in rates if each[0] <= self.tokens] or rates[:1])[1]
        flops = 2 * self.tokens * (self.tokens + 1) * self.q_heads * self.head_dim
        return flops * (BACKWARD_FLOPS if self.backward else 1) / self.ranks / rate


@dataclass(frozen=True)
class Cost:
    """Of the rank that the others wait for.

    `exposed_s`: transfers that no computation hides; `added_s`: launches, merges and copies that one GPU
    alone does not have; `extra_bytes`: the most that is allocated at a time beyond the inputs.
    """

    compute_s: float
    exposed_s: float
    added_s: float
    bytes_sent: float
    extra_bytes: float
    seconds = property(lambda self: self.compute_s + self.exposed_s + self.added_s)


def cost(world: World, machine: Machine) -> Cost:
    """Exchange of heads, if the method has one, and then chunk after chunk."""
    q, kv, group, steps = world.q_bytes, world.kv_bytes, world.group, world.steps
    # a program has a tile of rows of a head, and an SM at least one program
    programs = world.q_heads // group * math.ceil(world.rows * group / TILE)
    compute = world.ideal_s(machine) / min(1.0, programs / machine.sm_count)
    gradients = 2 * kv if world.backward else 0.0
    sent = exposed = 0.0
    added = steps * machine.launch_s
    if group > 1:  # forward Q, K, V and then O, lse; backward dO and then dQ, dK, dV
        sent = (group - 1) / group * (2 * q + kv + (0 if world.backward else world.lse_bytes))
        exposed = machine.nvlink.seconds(sent, 4 if world.backward else 5)
        added += 2 * (2 * q + kv) * machine.merge_s  # packed and unpacked
    if world.method != "all_to_all":
        added += steps * (kv * machine.backward_merge_s if world.backward else q * machine.merge_s)
        sent += (steps - 1) * (kv + gradients)
    if world.method == "all_gather":
        nodes = math.ceil(world.ranks / NODE)
        exposed = machine.nvlink.seconds(0, world.ranks - nodes) + world.between.seconds(0, nodes - 1)
        # all bytes pass the NVLink of each GPU, and the adapters of a node together (NCCL's tuning.cc)
        adapters = NODE * world.between.bytes_per_s if nodes > 1 else math.inf
        exposed += sent / min(machine.nvlink.bytes_per_s, adapters)
    elif world.method != "all_to_all":
        compute, waits = _ring(world, machine, compute)
        exposed, sent = exposed + waits, sent + gradients / 2  # dK and dV go home in the type of K and V
    return Cost(compute, exposed, added, sent, _extra_bytes(world))


def _ring(world: World, machine: Machine, compute: float) -> tuple[float, float]:
    """(computation, exposed transfers).

    All chunks but the last are computed while the next travels. With contiguous chunks the last rank sees
    half of its own chunk and the whole of each other; with the other layouts all see half of each.
    """
    link = world.between if world.ranks > NODE else machine.nvlink
    home = link.seconds(world.kv_bytes) if world.backward else 0.0
    travel = link.seconds(world.kv_bytes) + (link.seconds(2 * world.kv_bytes) if world.backward else 0.0)
    first = compute / world.steps
    others = first * (2 if world.layout == "contiguous" else 1)
    waits = [max(0.0, travel - work) for work in (first, others)]
    return first + (world.steps - 1) * others, waits[0] + (world.steps - 2) * waits[1] + home


def _extra_bytes(world: World) -> float:
    """From the tensors that the code holds at a time; for "hybrid" by the same rules."""
    q, kv, steps = world.q_bytes, world.kv_bytes, world.steps
    if world.backward:
        sums = 3 * q + 2 * world.lse_bytes  # dQ, its float32 sum, and lse and D as the kernel reads them
        # of contiguous parts the first rank sees its own keys alone, and keeps them
        rings = sums + (11 if world.layout == "contiguous" else 10) * kv
        gathers = sums + (5 * steps + 2) * kv
        held = {"ring": rings, "all_gather": gathers, "all_to_all": 5 * q + kv, "hybrid": q + rings}
        return held[world.method]
    part = q + world.lse_bytes
    parts = part * min(steps, MOST_PARTS + 1)
    whole = part if steps <= MOST_PARTS else 2 * part  # what was merged before is in float32
    kept = max((steps + 1) * kv, whole + kv) if world.method == "all_gather" else whole + 2 * kv
    by_heads = 4 * q + world.lse_bytes if world.group > 1 else 0
    by_chunks = parts + kept if steps > 1 else 0
    return max(by_heads, by_chunks) + (q + kv if by_heads else 0)
