"""What can be checked: the kernels, one case, and lists of cases. Needs neither torch nor triton."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product

from kernels.algorithms import ALGORITHMS
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.tiles import count_tiles

BOTH = ("cuda", "interpreter")
USERS = ("user", *(f"user{number}" for number in range(2, 9)))
"""Names of the user's own kernels, in the order in which the command line gives them as file.py:function."""
LAYOUTS = ("contiguous", "transposed", "sliced", "packed", "mixed", "expanded", "far")
"""How Q, K and V lie in memory. transposed: views of (batch, length, heads, head_dim). sliced: parts of
larger tensors, sliced:24 with 24 elements around them. packed: views of one (batch, length, 3, heads,
head_dim) tensor, or of one for K and V if the shape of Q differs. mixed: K transposed, Q and V column by
column: their last stride is not 1. expanded: stride 0 along each axis of K, V and dO in which all is the
same, as it is in shared inputs. far: batches and heads 2^30 elements apart, for a user's kernel on a GPU."""

MAX_REPEATS = 250


@dataclass(frozen=True)
class CheckedKernel:
    """One implementation: where it runs, and whether it gives gradients."""

    label: str
    backends: tuple[str, ...] = BOTH
    gradients: bool = True


PUBLIC_CALL = "flash_attention"
OURS = {PUBLIC_CALL: CheckedKernel("flash_attention(), the public call")} | {
    name: CheckedKernel(algorithm.checked, gradients=algorithm.has_gradients)
    for name, algorithm in ALGORITHMS.items()
    if algorithm.checked
}
"""Kernels of this project, by the names that commands and URLs give them."""


KERNELS = OURS | {
    name: CheckedKernel(peer.label, peer.backends, peer.differentiable)
    for name, peer in PEERS.items()
    if name not in {*OURS, "ours", *USERS}
}
KERNELS |= {name: CheckedKernel("your kernel") for name in USERS}


def kernels_on(backend: str, users: int) -> list[str]:
    """Names of the kernels that "cuda" or "interpreter" can check here, `users` of the user's own first."""
    absent = {*USERS, *(name for name, peer in PEERS.items() if not peer.is_installed)}
    names = [name for name, kernel in KERNELS.items() if backend in kernel.backends and name not in absent]
    return [*USERS[:users], *names]


@dataclass(frozen=True)
class CheckCase:
    """One check: a kernel, a problem, whether gradients are checked, and how many runs are compared.

    `layout` says how the tensors lie in memory, `scale` is the factor on the scores, None for
    1 / sqrt(head_dim). Raises InvalidProblem.
    """

    problem: AttentionProblem
    kernel: str = PUBLIC_CALL
    gradients: bool = True
    repeats: int = 3
    layout: str = LAYOUTS[0]
    scale: float | None = None
    requires_kernel: bool = False
    """Whether a function of the user that launches no Triton kernel fails."""
    within: tuple[str, ...] = field(default=(), compare=False)
    """Limits to which a case of the battery was fitted: where each is from, ": ", and the limit."""

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise InvalidProblem("kernel", self.kernel, f"expected one of {', '.join(KERNELS)}")
        if type(self.repeats) is not int or not 1 <= self.repeats <= MAX_REPEATS:
            raise InvalidProblem("repeats", self.repeats, f"expected a whole number from 1 to {MAX_REPEATS}")
        if self.layout not in LAYOUTS and not re.fullmatch(r"sliced:\d{1,3}", self.layout, re.ASCII):
            accepted = f"expected one of {', '.join(LAYOUTS)}, or such as sliced:24"
            raise InvalidProblem("layout", self.layout, accepted)
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise InvalidProblem("scale", self.scale, "expected a finite number above 0")

    @property
    def score_scale(self) -> float:
        return self.problem.scale if self.scale is None else self.scale

    def label(self, user_name: str = "") -> str:
        """What the pages call its kernel; `user_name` is the name of the user's own."""
        return user_name if self.kernel in USERS and user_name else KERNELS[self.kernel].label

    @property
    def words(self) -> str:
        """The case in a few words, for lists of cases: what differs from the simplest one."""
        problem = self.problem
        shape = f"{problem.q_len}x{problem.kv_len} d{problem.head_dim} {problem.mask}"
        dtype = "" if problem.dtype == "float16" else problem.dtype
        return " ".join(filter(None, (shape, dtype, self.more_words)))

    @property
    def heads_words(self) -> str:
        """Such as "b1 h4/2"."""
        return f"b{self.problem.batch} h{self.problem.q_heads}/{self.problem.kv_heads}"

    @property
    def more_words(self) -> str:
        """The same without lengths, head_dim, mask and type."""
        problem = self.problem
        heads = f"{problem.q_heads}/{problem.kv_heads} heads" if problem.group_size > 1 else ""
        parts = (
            f"batch {problem.batch}" if problem.batch > 1 else "",
            heads,
            "" if problem.inputs == "normal" else problem.inputs,
            "" if self.layout == "contiguous" else self.layout,
            "" if self.scale is None else f"scale {self.scale:g}",
        )
        return " ".join(filter(None, parts))


MAX_SHAPES = 100
MAX_CASES = 400


def parse_shapes(text: str) -> tuple[tuple[int, int], ...]:
    """Lengths such as "113x203, 128" as (q_len, kv_len) pairs. Raises InvalidProblem."""
    shapes = []
    for part in filter(None, re.split(r"[,;\s]+", text.strip())):
        match = re.fullmatch(r"(\d{1,7})(?:[x×](\d{1,7}))?", part, flags=re.ASCII)
        if not match:
            accepted = "expected lengths such as 256, or 113x203 (query x key), separated by commas"
            raise InvalidProblem("shapes", part[:40], accepted)
        shapes.append((int(match[1]), int(match[2] or match[1])))
    if not 1 <= len(shapes) <= MAX_SHAPES:
        raise InvalidProblem("shapes", f"{len(shapes)} shapes", f"expected 1 to {MAX_SHAPES}")
    return tuple(dict.fromkeys(shapes))


TRUSTED_SHAPES = parse_shapes("113x203, 128x217, 108x256, 256x512, 512x256, 1024, 1023x1024, 1024x1023")
"""(q_len, kv_len) of FlashAttention's own tests: Dao-AILab/flash-attention, tests/test_flash_attn.py."""
TRUSTED_CAUSAL_SHAPES = parse_shapes("1x239, 3x799, 127x512, 127x513")
"""Shapes that the same file adds for causal masks."""


def grid_cases(
    base: CheckCase,
    shapes: Iterable[tuple[int, int]] | None,
    head_dims: Iterable[int],
    dtypes: Iterable[str],
    masks: Iterable[str],
) -> tuple[CheckCase, ...]:
    """`base` with every combination of shapes, head_dims, dtypes and masks; None means the trusted shapes.

    Raises InvalidProblem for a value that no kernel takes, and for no cases or more than MAX_CASES.
    """
    cases = []
    for mask in masks:
        trusted = TRUSTED_SHAPES + (TRUSTED_CAUSAL_SHAPES if mask == "causal" else ())
        of_mask = product(trusted if shapes is None else tuple(shapes), head_dims, dtypes)
        for (q_len, kv_len), head_dim, dtype in of_mask:
            tall = base.problem.with_(q_len=q_len, kv_len=kv_len, head_dim=head_dim)
            cases.append(replace(base, problem=tall.with_(dtype=dtype, mask=mask)))
    if not 1 <= len(cases) <= MAX_CASES:
        remedy = "Choose fewer shapes, head_dims, dtypes or masks."
        raise InvalidProblem("grid", f"{len(cases)} cases", f"expected 1 to {MAX_CASES}", remedy)
    return tuple(cases)


def estimated_seconds(case: CheckCase, backend: str) -> float:
    """Rough time of a case in seconds, to warn before long ones.

    Fitted on two cores of an AMD EPYC; on CUDA it is the time of the float64 reference.
    """
    problem = case.problem
    scores = problem.scores
    reference = (
        scores * problem.head_dim * (6 if case.gradients else 2) * (2e-13 if backend == "cuda" else 1e-9)
    )
    if backend == "cuda" or case.kernel not in {*OURS, *USERS}:
        return 0.3 + reference * (1 if backend == "cuda" else 1 + case.repeats / 4)
    block = 32 if case.kernel in USERS else 64  # of kernels that choose their tiles; small ones take longer
    entry = ALGORITHMS.get(case.kernel)
    given = entry is not None and entry.own_tiles is None
    chosen = problem if given else problem.with_(block_m=block, block_n=block)
    tiles = count_tiles(chosen).visited
    runs = 1 + case.repeats  # one more run gives the weights of the key tiles
    steps = tiles * (runs + (3 * case.repeats if case.gradients and KERNELS[case.kernel].gradients else 0))
    return 0.2 + reference + steps * 1.6e-3
