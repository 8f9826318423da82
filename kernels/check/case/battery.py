"""The battery: small cases, each with something that kernels get wrong, and the same with a seed."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from kernels.algorithms import ALGORITHMS
from kernels.check.case.cases import LAYOUTS, PUBLIC_CALL, USERS, CheckCase
from kernels.check.case.fit import all_fitted
from kernels.check.case.limits import Limits
from kernels.problem import AttentionProblem

BASE = AttentionProblem(q_heads=2, kv_heads=2, block_m=32, block_n=32)


def _case(layout: str = LAYOUTS[0], scale: float | None = None, **problem: Any) -> CheckCase:
    return CheckCase(BASE.with_(**problem), layout=layout, scale=scale)


_FILE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
BATTERY, PATTERN_BATTERY, GPU_BATTERY = (
    {_case(**each["case"]): each["catches"] for each in _FILE[name]} for name in ("every", "patterns", "gpu")
)
"""Cases, each with one line on what it is there to catch: for every kernel; for those that take masks and
scores beyond a band; for the user's on a GPU."""


def battery(
    base: CheckCase, seed: int = 0, limits: Limits | None = None, backend: str = "interpreter"
) -> dict[CheckCase, str]:
    """The cases for the kernel of `base`, with its number of runs and whether its gradients are checked.

    A seed other than 0 draws other cases, which try the same. Cases outside of what the kernel declares are
    fitted to it. Only the user's kernels and flash_attention take a scale: others get the cases without.
    Each case has its line on what it is there to catch.
    """
    entry = ALGORITHMS.get(base.kernel)
    takes_patterns = base.kernel == PUBLIC_CALL or (entry is not None and entry.takes_patterns)
    takes_scale = base.kernel in (*USERS, PUBLIC_CALL)
    found: dict[CheckCase, str] = {}
    on_gpu = backend == "cuda" and base.kernel in USERS
    every = BATTERY | (PATTERN_BATTERY if takes_patterns else {}) | (GPU_BATTERY if on_gpu else {})
    for given, catches in every.items():
        case = _drawn(given, seed) if seed else given
        scale = case.scale if takes_scale else None
        # gradients of large scores show how a kernel rounds more than what it computes
        learns = base.gradients and case.problem.inputs != "large"
        own = replace(base, problem=case.problem, layout=case.layout, scale=scale, gradients=learns)
        found[own] = catches
    return dict(zip(all_fitted([*found], limits or Limits()), found.values(), strict=True))


def _drawn(case: CheckCase, seed: int) -> CheckCase:
    """Another case that tries the same: lengths, heads, windows, strides and the scale are drawn.

    Cases of the same lengths are so again: a kernel may keep something by the shape alone, such as a mask.
    """
    problem = case.problem
    random = Random(f"{seed} {problem.q_len} {problem.kv_len}")
    least = sum(map(int, problem.documents.split()))
    order = (problem.kv_len > problem.q_len) - (problem.kv_len < problem.q_len)
    pairs = product(_alike(problem.q_len), _alike(problem.kv_len))
    q_len, kv_len = random.choice(
        [(q, kv) for q, kv in pairs if (kv > q) - (kv < q) == order and kv >= least]
    )
    batch, kv_heads, group = random.choice([*_heads(problem)])
    changes: dict[str, int | str] = {
        name: random.randint(value // 2 + 1, value + value // 2)
        for name in ("window_left", "window_right", "prefix", "softcap")
        if (value := getattr(problem, name)) != getattr(AttentionProblem, name)
    }
    documents = problem.documents.split()
    random.shuffle(documents)
    scale = None if case.scale is None else round(case.scale * random.uniform(0.6, 1.6), 4)
    layout = f"sliced:{random.choice((8, 16, 24, 40))}" if case.layout == "sliced" else case.layout
    drawn = problem.with_(
        q_len=q_len,
        kv_len=kv_len,
        batch=batch,
        q_heads=kv_heads * group,
        kv_heads=kv_heads,
        documents=" ".join(documents),
        seed=seed,
        **changes,
    )
    return replace(case, problem=drawn, layout=layout, scale=scale)


def _alike(length: int) -> list[int]:
    """Lengths that mean the same to tiles: a full one, one more than full, less than one, more than many."""

    def meaning(n: int) -> tuple[object, ...]:
        rests = (n % 128 == 0, n % 32 == 0, n % 16 == 0, n % 32 == 1, n % 64 == 1)
        return (*rests, *(n > edge for edge in (1, 15, 256, 1024, 2048, 4096)))

    most = max(length // 4, min(length // 2, 32))
    near = range(length - most, length + most + 1)
    return [n for n in near if meaning(n) == meaning(length)]


def _heads(problem: AttentionProblem) -> Iterator[tuple[int, int, int]]:
    """Batches, key heads and query heads for each that mean the same: one or several, many or few."""

    def meaning(batch: int, kv_heads: int, group: int) -> tuple[bool, ...]:
        heads = kv_heads * group
        power = group & (group - 1) == 0
        return batch > 1, kv_heads > 1, group > 1, power, heads > 16, batch * heads > 64

    own = problem.batch, problem.kv_heads, problem.group_size
    for batch, kv_heads, group in product(*(range(max(1, count - 1), count + 2) for count in own)):
        if meaning(batch, kv_heads, group) == meaning(*own):
            yield batch, kv_heads, group
