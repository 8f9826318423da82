"""The attention of one model: how many layers of which kind, and the problem of one of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernels.problem import LIMITS, AttentionProblem, InvalidProblem
from kernels.problem.presets import PRESETS

PHASES = ("prefill", "decode")
"""All tokens of a prompt at once, or one new token against the keys of those before it."""
KINDS = ("full", "window")
"""What the queries of a layer see: all keys up to their own, or the last `window` of them."""


@dataclass(frozen=True)
class Model:
    name: str
    source: str
    """Repository on huggingface.co; "" for a config.json of the user's."""
    q_heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    layer_kinds: tuple[str, ...]
    """One of KINDS per layer."""
    window: int | None = None
    """Keys that a query of a "window" layer sees, its own among them; None without such layers."""
    max_length: int | None = None
    """Tokens that it has positions for; None if its config does not say."""
    apart: tuple[str, ...] = ()
    """What its scores have that times and counts leave out, in words: softcap, sinks, ALiBi, a scale."""
    scores: Mapping[str, int] = field(default_factory=dict)
    """What of that a problem can have, by the names of its fields: it is played and checked with it."""
    notes: tuple[str, ...] = ()
    """What was taken for a field that its config lacks."""
    config: str = ""
    """The fields that were read, as JSON: `from_config` makes the same model of it."""

    @property
    def kinds(self) -> dict[str, int]:
        """Number of layers of each kind that it has, in the order of KINDS."""
        counts = Counter(self.layer_kinds)
        return {kind: counts[kind] for kind in KINDS if counts[kind]}

    def problem(
        self, length: int, phase: str = "prefill", kind: str = "full", batch: int = 1
    ) -> AttentionProblem:
        """The problem of one layer, in the tiles of the preset that is most like it.

        A decoding step has one query, and the keys that it sees: of a "window" layer the last `window`. A
        window that hides no key is a causal mask. Raises InvalidProblem.
        """
        if phase not in PHASES:
            raise InvalidProblem("phase", phase, f"expected one of {', '.join(PHASES)}")
        if kind not in self.kinds:
            raise InvalidProblem("kind", kind, f"{self.name} has layers of {', '.join(self.kinds)}")
        low, high = LIMITS["kv_len"]
        if not low <= length <= high:
            raise InvalidProblem("length", length, f"expected a whole number from {low} to {high}")
        seen = min(length, self.window) if kind == "window" and self.window else length
        shape = {"batch": batch, "q_heads": self.q_heads, "kv_heads": self.kv_heads}
        shape |= {"head_dim": self.head_dim}
        if phase == "decode":
            return PRESETS["decode"].problem.with_(kv_len=seen, dtype=self.dtype, **shape)
        alike = PRESETS["llama3" if self.head_dim > PRESETS["gpt2"].problem.head_dim else "gpt2"].problem
        problem = alike.with_(q_len=length, kv_len=length, dtype=self.dtype, **shape)
        if seen == length:
            return problem
        return problem.with_(mask="window", window_left=seen - 1, window_right=0)

    def head(self, length: int, kind: str) -> AttentionProblem:
        """One query head of a layer with its key head, and the scores that the model has: all are alike."""
        return self.problem(length, kind=kind).with_(q_heads=1, kv_heads=1, **self.scores)

    def cache_bytes(self, length: int, batch: int = 1, kv_heads: int | None = None) -> int:
        """K and V of all layers after `length` tokens; a "window" layer keeps those that it still sees.

        With `kv_heads`, as if it had that many.
        """
        total = 0
        for kind, layers in self.kinds.items():
            problem = self.problem(length, "decode", kind, batch)
            row_bytes = problem.head_dim * problem.itemsize
            total += 2 * layers * batch * (kv_heads or self.kv_heads) * problem.kv_len * row_bytes
        return total
