"""What can be checked: the kernels, one case, and lists of cases. Needs neither torch nor triton."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from kernels.algorithms import ALGORITHMS
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.tiles import count_tiles

BOTH = ("cuda", "interpreter")
USERS = ("user", *(f"user{number}" for number in range(2, 9)))
"""Names of the user's own kernels, in the order in which the command line gives them as file.py:function."""
LAYOUTS = ("contiguous", "transposed", "sliced", "packed", "mixed")
"""How Q, K and V lie in memory. transposed: views of (batch, length, heads, head_dim). sliced: parts of
larger tensors. packed: views of one (batch, length, 3, heads, head_dim) tensor, or of one for K and V if the
shape of Q differs. mixed: Q contiguous, K transposed, V column by column: its last stride is not 1."""
UPLOADED = "uploaded"
"""In place of a kernel's name if a file holds the result, which was computed elsewhere."""

MAX_REPEATS = 250


@dataclass(frozen=True)
class CheckedKernel:
    """One implementation: what it returns besides O, and whether it runs with the tiles of the problem."""

    label: str
    backends: tuple[str, ...] = BOTH
    gradients: bool = True
    lse: bool = True
    tiles: bool = True


PUBLIC_CALL = "flash_attention"
OURS = {PUBLIC_CALL: CheckedKernel("flash_attention(), the public call", tiles=False)} | {
    name: CheckedKernel(
        algorithm.checked,
        lse=algorithm.gives_lse,
        gradients=algorithm.has_gradients,
        tiles=algorithm.own_tiles is None,
    )
    for name, algorithm in ALGORITHMS.items()
    if algorithm.checked
}
"""Kernels of this project, by the names that commands and URLs give them."""


KERNELS = OURS | {
    name: CheckedKernel(peer.label, peer.backends, peer.differentiable, lse=False, tiles=False)
    for name, peer in PEERS.items()
    if name not in {*OURS, "ours", *USERS}
}
KERNELS |= {name: CheckedKernel("your kernel", lse=False, tiles=False) for name in USERS}


def kernels_on(backend: str, users: int) -> list[str]:
    """Names of the kernels that "cuda" or "interpreter" can check here, `users` of the user's own first."""
    absent = {*USERS, *(name for name, peer in PEERS.items() if not peer.is_installed)}
    names = [name for name, kernel in KERNELS.items() if backend in kernel.backends and name not in absent]
    return [*USERS[:users], *names]


@dataclass(frozen=True)
class CheckCase:
    """One check: a kernel, a problem, whether gradients are checked, and how many runs are compared.

    `upload` is the SHA-256 of the file with the tensors, or "" for the tensors of `make_inputs`. `layout`
    says how these lie in memory, `scale` is the factor on the scores, None for 1 / sqrt(head_dim). Raises
    InvalidProblem.
    """

    problem: AttentionProblem
    kernel: str = PUBLIC_CALL
    gradients: bool = True
    repeats: int = 3
    upload: str = ""
    layout: str = LAYOUTS[0]
    scale: float | None = None
    axes: str = "bhld"
    """Order of the axes of the file's tensors: see `uploads.AXES`."""
    requires_kernel: bool = False
    """Whether a function of the user that launches no Triton kernel fails."""

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS and self.kernel != UPLOADED:
            raise InvalidProblem("kernel", self.kernel, f"expected one of {', '.join(KERNELS)}")
        if type(self.repeats) is not int or not 1 <= self.repeats <= MAX_REPEATS:
            raise InvalidProblem("repeats", self.repeats, f"expected a whole number from 1 to {MAX_REPEATS}")
        if self.layout not in LAYOUTS:
            raise InvalidProblem("layout", self.layout, f"expected one of {', '.join(LAYOUTS)}")
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise InvalidProblem("scale", self.scale, "expected a finite number above 0")

    @property
    def score_scale(self) -> float:
        return self.problem.scale if self.scale is None else self.scale

    def label(self, user_name: str = "") -> str:
        """What the pages call its kernel; `user_name` is the name of the user's own."""
        if self.kernel == UPLOADED:
            return "result from the file"
        return user_name if self.kernel in USERS and user_name else KERNELS[self.kernel].label

    @property
    def words(self) -> str:
        """The case in a few words, for lists of cases: what differs from the simplest one."""
        problem = self.problem
        shape = f"{problem.q_len}x{problem.kv_len} d{problem.head_dim} {problem.mask}"
        dtype = "" if problem.dtype == "float16" else problem.dtype
        return " ".join(filter(None, (shape, dtype, self.more_words)))

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
INTERPRETER_CASE_S = 3.0
"""A grid leaves out cases that would take the interpreter longer than this, in seconds, by estimate."""


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


@dataclass(frozen=True)
class Grid:
    """Cases to run, and cases left out because they would take too long on this backend."""

    cases: tuple[CheckCase, ...]
    left_out: tuple[CheckCase, ...] = ()

    @property
    def words(self) -> str:
        """What was left out, for the page; "" if nothing was."""
        if not self.left_out:
            return ""
        shapes = dict.fromkeys(f"{case.problem.q_len}x{case.problem.kv_len}" for case in self.left_out)
        count, longer = len(self.left_out), f"more than {INTERPRETER_CASE_S:g} s each in the interpreter"
        return f"{count} cases left out, {longer}: {', '.join(shapes)}"


def grid_cases(
    base: CheckCase,
    backend: str,
    shapes: Iterable[tuple[int, int]] | None,
    head_dims: Iterable[int],
    dtypes: Iterable[str],
    masks: Iterable[str],
) -> Grid:
    """`base` with every combination of shapes, head_dims, dtypes and masks; None means the trusted shapes.

    Raises InvalidProblem for a value that no kernel takes, and for no cases or more than MAX_CASES.
    """
    cases = []
    for mask in masks:
        trusted = TRUSTED_SHAPES + (TRUSTED_CAUSAL_SHAPES if mask == "causal" else ())
        of_mask = product(trusted if shapes is None else tuple(shapes), head_dims, dtypes)
        for (q_len, kv_len), head_dim, dtype in of_mask:
            tall = base.problem.with_(q_len=q_len, kv_len=kv_len, head_dim=head_dim)
            cases.append(replace(base, problem=tall.with_(dtype=dtype, mask=mask), upload=""))
    if not 1 <= len(cases) <= MAX_CASES:
        remedy = "Choose fewer shapes, head_dims, dtypes or masks."
        raise InvalidProblem("grid", f"{len(cases)} cases", f"expected 1 to {MAX_CASES}", remedy)
    if backend == "cuda":
        return Grid(tuple(cases))
    long = [case for case in cases if estimated_seconds(case, backend) > INTERPRETER_CASE_S]
    return Grid(tuple(case for case in cases if case not in long), tuple(long))


def estimated_seconds(case: CheckCase, backend: str) -> float:
    """Rough time of a case in seconds, to warn before long ones.

    Fitted on two cores of an AMD EPYC; on CUDA it is the time of the float64 reference.
    """
    problem = case.problem
    scores = problem.batch * problem.q_heads * problem.q_len * problem.kv_len
    reference = (
        scores * problem.head_dim * (6 if case.gradients else 2) * (2e-13 if backend == "cuda" else 1e-9)
    )
    if backend == "cuda" or case.kernel not in {*OURS, *USERS}:
        return 0.3 + reference * (1 if backend == "cuda" else 1 + case.repeats / 4)
    block = 32 if case.kernel in USERS else 64  # of kernels that choose their tiles; small ones take longer
    chosen = problem if KERNELS[case.kernel].tiles else problem.with_(block_m=block, block_n=block)
    tiles = count_tiles(chosen).visited
    runs = 1 + case.repeats  # one more run gives the weights of the key tiles
    steps = tiles * (runs + (3 * case.repeats if case.gradients and KERNELS[case.kernel].gradients else 0))
    return 0.2 + reference + steps * 1.6e-3


def quick_case(case: CheckCase, backend: str, limit_s: float) -> CheckCase:
    """The case, or one key head of it with so few queries and keys that it is quick. A file is not cut."""
    while (problem := case.problem).kv_len > 1 and estimated_seconds(case, backend) > limit_s:
        if case.upload or problem.pattern:
            break
        lengths = {name: -(-getattr(problem, name) // 2) for name in ("q_len", "kv_len")}
        head = problem.with_(batch=1, q_heads=problem.group_size, kv_heads=1, **lengths)
        case = replace(case, problem=head)
    return case


BASE = AttentionProblem(q_heads=2, kv_heads=2, block_m=32, block_n=32)

BATTERY = (
    CheckCase(BASE.with_(q_len=128, kv_len=128)),
    CheckCase(BASE.with_(q_len=70, kv_len=109, batch=2)),
    CheckCase(BASE.with_(q_len=128, kv_len=128, head_dim=32, mask="causal")),
    CheckCase(BASE.with_(q_len=113, kv_len=113, mask="causal")),
    CheckCase(BASE.with_(q_len=33, kv_len=290, head_dim=32, inputs="growing_max")),
    CheckCase(BASE.with_(q_len=70, kv_len=130, mask="causal")),
    CheckCase(BASE.with_(q_len=96, kv_len=64, mask="causal")),
    CheckCase(BASE.with_(q_len=40, kv_len=90, head_dim=32, q_heads=6, kv_heads=2, batch=2)),
    CheckCase(BASE.with_(q_len=40, kv_len=40, mask="causal", q_heads=4, kv_heads=2, batch=2)),
    CheckCase(BASE.with_(q_len=64, kv_len=96, head_dim=128)),
    CheckCase(BASE.with_(q_len=64, kv_len=64, head_dim=80, mask="causal")),
    CheckCase(BASE.with_(q_len=96, kv_len=160, dtype="bfloat16")),
    CheckCase(BASE.with_(q_len=64, kv_len=128, inputs="large")),
    CheckCase(BASE.with_(q_len=1, kv_len=2100)),
    CheckCase(BASE.with_(q_len=40, kv_len=70, batch=2), layout="transposed"),
    CheckCase(BASE.with_(q_len=50, kv_len=64, batch=2), layout="sliced"),
    CheckCase(BASE.with_(q_len=50, kv_len=50, mask="causal", batch=2), layout="packed"),
    CheckCase(BASE.with_(q_len=64, kv_len=96), scale=0.3),
    CheckCase(BASE.with_(q_len=40, kv_len=40, mask="causal", q_heads=4, kv_heads=2), scale=0.3),
    CheckCase(BASE.with_(q_len=33, kv_len=40, head_dim=32, q_heads=9, kv_heads=9)),
    CheckCase(BASE.with_(q_len=96, kv_len=96, mask="causal", inputs="large")),
    CheckCase(BASE.with_(q_len=290, kv_len=290, head_dim=32, mask="causal", q_heads=1, kv_heads=1)),
    CheckCase(BASE.with_(q_len=64, kv_len=90), layout="mixed"),
    CheckCase(BASE.with_(q_len=96, kv_len=96, mask="window", window_left=20, window_right=0)),
    CheckCase(
        BASE.with_(
            q_len=40, kv_len=100, mask="window", window_left=50, window_right=10, q_heads=4, kv_heads=2
        )
    ),
    CheckCase(BASE.with_(q_len=48, kv_len=65, head_dim=32)),
    CheckCase(BASE.with_(q_len=24, kv_len=40, head_dim=32, q_heads=4, kv_heads=1)),
    CheckCase(BASE.with_(q_len=20, kv_len=7, head_dim=32, inputs="large")),
    CheckCase(BASE.with_(q_len=40, kv_len=72, head_dim=96)),
    CheckCase(BASE.with_(q_len=40, kv_len=70, dtype="float32")),
    CheckCase(BASE.with_(q_len=40, kv_len=40, head_dim=32, mask="causal", dtype="float32")),
)
"""Lengths that no tile divides, batch 2, causal masks with equal and unequal lengths, windows, shared key
heads, one key head for all, one key more than tiles hold, fewer keys than a tile, many heads, several head
dims, bfloat16, float32, a row max that grows, scores that overflow or are far below 0, one query over many
keys, several tiles of 128 rows, other layouts.

Properties that a kernel may treat in a branch of its own meet each other: a causal mask with a batch, with a
scale and with float32; a batch with strides; a window with unequal lengths and shared heads."""


PATTERN_BATTERY = (
    CheckCase(BASE.with_(q_len=70, kv_len=100, mask="documents", documents="40 1 0 33 26", kv_heads=1)),
    CheckCase(BASE.with_(q_len=64, kv_len=90, head_dim=32, mask="sinks", window_left=20, sink_logit=1)),
    CheckCase(BASE.with_(q_len=70, kv_len=70, head_dim=32, mask="prefix", prefix=20, softcap=3, batch=2)),
    CheckCase(BASE.with_(q_len=40, kv_len=90, head_dim=32, mask="causal", alibi=1, q_heads=6, kv_heads=2)),
)
"""For kernels that take masks and scores beyond a band: a document of one key and an empty one, borders
inside tiles, a window with sinks and a sink logit, a softcap beside a prefix, ALiBi on shared heads."""


def battery(base: CheckCase) -> tuple[CheckCase, ...]:
    """The cases for the kernel of `base`, with its number of runs and whether its gradients are checked.

    Only the user's kernels and flash_attention take a scale, so only they get the case with one.
    """
    entry = ALGORITHMS.get(base.kernel)
    takes_patterns = base.kernel == PUBLIC_CALL or (entry is not None and entry.takes_patterns)
    takes_scale = base.kernel in (*USERS, PUBLIC_CALL)
    return tuple(
        replace(
            case,
            kernel=base.kernel,
            gradients=base.gradients,
            repeats=base.repeats,
            requires_kernel=base.requires_kernel,
        )
        for case in (*BATTERY, *(PATTERN_BATTERY if takes_patterns else ()))
        if takes_scale or case.scale is None
    )
