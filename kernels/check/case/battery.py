"""The battery: small cases, each with something that kernels get wrong, and the same with a seed.

Few cases carry many properties. Properties that a kernel may treat in a branch of its own meet each other: a
causal mask with a batch, with a scale and with float32; a batch with strides; a window with unequal lengths
and shared heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from random import Random
from typing import Any

from kernels.algorithms import ALGORITHMS
from kernels.check.case.cases import LAYOUTS, PUBLIC_CALL, USERS, CheckCase
from kernels.check.case.fit import all_fitted
from kernels.check.case.limits import Limits
from kernels.problem import AttentionProblem

BASE = AttentionProblem(q_heads=2, kv_heads=2, block_m=32, block_n=32)


@dataclass(frozen=True)
class Tried:
    """A case of the battery, and in one line what it is there to catch."""

    catches: str
    case: CheckCase


def _try(
    catches: str, q_len: int, kv_len: int, layout: str = LAYOUTS[0], scale: float | None = None, **more: Any
) -> Tried:
    problem = BASE.with_(q_len=q_len, kv_len=kv_len, **more)
    return Tried(catches, CheckCase(problem, layout=layout, scale=scale))


_causal, _window = partial(_try, mask="causal"), partial(_try, mask="window")

BATTERY = (
    _try("the algorithm itself, over tiles that are full", 128, 128),
    _try("lengths that no tile divides; a second batch", 70, 109, batch=2),
    _causal("a causal mask over full tiles: which are left out, which masked", 128, 128),
    _causal("a causal mask in a last tile that is not full", 113, 113, head_dim=32),
    _try("l or acc not rescaled when the row max grows", 33, 290, head_dim=32, inputs="growing_max"),
    _causal("more keys than queries: the causal mask aligned to the wrong corner", 70, 130),
    _causal("rows that see no key, and a row that sees one", 96, 64),
    _try("shared key heads, in groups of three", 40, 90, head_dim=32, q_heads=6, batch=2),
    _causal(
        "bfloat16, causal, groups of eight, three batches and a scale at once",
        24,
        24,
        head_dim=32,
        q_heads=16,
        batch=3,
        scale=0.3,
        dtype="bfloat16",
    ),
    _try("head_dim 128", 128, 128, head_dim=128, q_heads=1, kv_heads=1),
    _causal("a head_dim that is not a power of two", 48, 48, head_dim=80),
    _try("head_dim 256: a part of it left out", 24, 40, head_dim=256),
    _try("bfloat16: P or a result in the wrong type", 128, 128, dtype="bfloat16", q_heads=1, kv_heads=1),
    _try("exponentials that overflow without the row max", 64, 128, inputs="large"),
    _try("one query over more than 4,096 keys", 1, 4100, q_heads=1, kv_heads=1),
    _try(
        "more than 1,024 queries: rows that no program computes", 1100, 24, head_dim=16, q_heads=1, kv_heads=1
    ),
    _try("(batch, length, heads, head_dim) in memory", 40, 70, "transposed", batch=2),
    _try("strides of parts of larger tensors, that of the batch too", 50, 64, "sliced", batch=2),
    _causal("Q, K and V in one tensor; causal with two batches", 50, 50, "packed", batch=2),
    _try("a last stride that is not 1; V with other strides than K", 64, 90, "mixed"),
    _try(
        "stride 0: one K and V for all heads, dO of out.sum()", 40, 56, "expanded", batch=2, inputs="shared"
    ),
    _try("a scale below 1 / sqrt(head_dim)", 64, 96, scale=0.05),
    _try("17 heads, 68 with all batches", 20, 24, head_dim=32, q_heads=17, kv_heads=17, batch=4),
    _causal("masked scores that are larger than all others, by thousands", 96, 96, inputs="large", scale=3),
    _causal("several tiles of 128 rows", 290, 290, head_dim=32, q_heads=1, kv_heads=1),
    _window("a window: tiles left of it are left out, also those of 128 keys", 300, 300, window_left=20),
    _window(
        "both sides, shared heads; another mask of the same shape",
        70,
        130,
        window_left=50,
        window_right=10,
        q_heads=4,
    ),
    _try("one key more than tiles hold; head_dim 96", 48, 65, head_dim=96),
    _try("one key head for all: its gradients not summed", 24, 40, head_dim=32, q_heads=4, kv_heads=1),
    _try("fewer keys than a tile, scores far below 0", 20, 7, head_dim=32, inputs="large"),
    _try("one key for every row: O is V, dQ and dK are 0", 33, 1, head_dim=32),
    _try("float32 that passes through a smaller type", 40, 70, dtype="float32"),
    _causal("float32, in the branch of the causal mask", 40, 40, head_dim=32, dtype="float32"),
)
PATTERN_BATTERY = (
    _try(
        "documents, one of one key, one empty",
        70,
        100,
        mask="documents",
        documents="40 1 0 33 26",
        kv_heads=1,
    ),
    _try(
        "sinks beside a window, a sink logit", 64, 90, head_dim=32, mask="sinks", window_left=20, sink_logit=1
    ),
    _try("a softcap, a prefix", 70, 70, head_dim=32, mask="prefix", prefix=20, softcap=3, batch=2),
    _causal("ALiBi on shared heads", 40, 90, head_dim=32, alibi=1, q_heads=6),
)
"""For kernels that take masks and scores beyond a band."""
GPU_BATTERY = (
    _try(
        "on a GPU alone: offsets of more than 2^31 elements, int32 in an address",
        40,
        70,
        "far",
        batch=3,
        q_heads=3,
        kv_heads=3,
    ),
)
"""For kernels of the user on a GPU with enough memory."""


def battery(
    base: CheckCase, seed: int = 0, limits: Limits | None = None, backend: str = "interpreter"
) -> tuple[CheckCase, ...]:
    """The cases of `tried`."""
    return tuple(each.case for each in tried(base, seed, limits, backend))


def tried(
    base: CheckCase, seed: int = 0, limits: Limits | None = None, backend: str = "interpreter"
) -> tuple[Tried, ...]:
    """The cases for the kernel of `base`, with its number of runs and whether its gradients are checked.

    A seed other than 0 draws other cases, which try the same. Cases outside of what the kernel declares are
    fitted to it. Only the user's kernels and flash_attention take a scale: others get the cases without.
    """
    entry = ALGORITHMS.get(base.kernel)
    takes_patterns = base.kernel == PUBLIC_CALL or (entry is not None and entry.takes_patterns)
    takes_scale = base.kernel in (*USERS, PUBLIC_CALL)
    found: dict[CheckCase, str] = {}
    on_gpu = backend == "cuda" and base.kernel in USERS
    for each in (*BATTERY, *(PATTERN_BATTERY if takes_patterns else ()), *(GPU_BATTERY if on_gpu else ())):
        case = _drawn(each.case, seed) if seed else each.case
        scale = case.scale if takes_scale else None
        # gradients of large scores show how a kernel rounds more than what it computes
        learns = base.gradients and case.problem.inputs != "large"
        own = replace(base, problem=case.problem, layout=case.layout, scale=scale, gradients=learns)
        found[own] = each.catches
    cases = all_fitted([*found], limits or Limits())
    return tuple(Tried(catches, case) for case, catches in zip(cases, found.values(), strict=True))


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
