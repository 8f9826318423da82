"""The description of an attention problem, and its validation."""

import functools
import math
from dataclasses import asdict, dataclass, replace

from kernels.problem.band import Band
from kernels.problem.expression import Node, parse
from kernels.problem.invalid import InvalidProblem
from kernels.problem.pattern import Pattern, Rule, alibi_slopes, sink_logits
from kernels.problem.words import LONGEST

DTYPES = {"float16": 2, "bfloat16": 2, "float32": 4}
"""Accepted element types and the size of one element in bytes."""

MASKS = ("full", "causal", "window", "documents", "prefix", "sinks", "expression")
INPUTS = ("normal", "growing_max", "falling_max", "large", "one_hot", "constant", "text", "shared")
BLOCKS = (4, 8, 16, 32, 64, 128)

LIMITS = {
    "batch": (1, 1024),
    "q_heads": (1, 1024),
    "kv_heads": (1, 1024),
    "q_len": (1, 1 << 20),
    "kv_len": (1, 1 << 20),
    "head_dim": (16, 256),
    "seed": (0, (1 << 31) - 1),
    "window_left": (0, 1 << 20),
    "window_right": (0, 1 << 20),
    "kv_splits": (0, 1024),
    "prefix": (1, 1 << 20),
    "softcap": (0, 1000),
    "alibi": (0, 1),
    "sink_logit": (0, 1),
}
"""Smallest and largest accepted value of each whole-number field."""
_CHOICES = {"dtype": DTYPES, "mask": MASKS, "inputs": INPUTS, "block_m": BLOCKS, "block_n": BLOCKS}


@dataclass(frozen=True)
class AttentionProblem:
    """Shapes, element type, mask, tile sizes and inputs of one attention call.

    Query is (batch, q_heads, q_len, head_dim); key and value are (batch, kv_heads, kv_len, head_dim), as in
    `torch.nn.functional.scaled_dot_product_attention`. A causal mask is aligned to the bottom right: query i
    sees the keys j <= i + kv_len - q_len. A window mask keeps the key on that diagonal, `window_left` keys
    before it and `window_right` keys after it. `block_m` and `block_n` are the rows of a query tile and of a
    key tile. `kv_splits` is for split-KV decoding: the number of parts that the keys are split into, 0 for as
    many as fill the device.

    Further masks: "documents" is causal inside each of the `documents` (their lengths, separated by spaces,
    that lie one after the other in the keys), "prefix" causal but for the first `prefix` keys, which all
    queries see, "sinks" a causal window beside which the first `prefix` keys stay visible, "expression" the
    condition in `expression` (kernels/problem/expression.py). `softcap` caps the scores (0 for not),
    `alibi` and `sink_logit` (0 or 1) give each head a slope, and a logit that takes part in the row sum.

    Raises InvalidProblem, which names the field, the value given and the values accepted.
    """

    batch: int = 1
    q_heads: int = 1
    kv_heads: int = 1
    q_len: int = 256
    kv_len: int = 256
    head_dim: int = 64
    dtype: str = "float16"
    mask: str = "full"
    block_m: int = 64
    block_n: int = 64
    inputs: str = "normal"
    seed: int = 0
    window_left: int = 128
    window_right: int = 0
    kv_splits: int = 0
    text: str = ""
    documents: str = ""
    prefix: int = 4
    expression: str = "k <= q"
    softcap: int = 0
    alibi: int = 0
    sink_logit: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or len(self.text) > LONGEST:
            raise InvalidProblem("text", self.text, f"expected a text of at most {LONGEST} characters")
        for name, (low, high) in LIMITS.items():
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
                raise InvalidProblem(name, given, f"expected a whole number from {low} to {high}")
        for name, accepted in _CHOICES.items():
            given = getattr(self, name)
            if not isinstance(given, (int, str)) or given not in accepted:
                raise InvalidProblem(name, given, f"expected one of {', '.join(map(str, accepted))}")
        if self.q_heads % self.kv_heads:
            remedy = "Every key and value head serves the same number of query heads."
            raise InvalidProblem("kv_heads", self.kv_heads, f"it must divide q_heads={self.q_heads}", remedy)
        self._refuse_masks()

    def _refuse_masks(self) -> None:
        if not isinstance(self.documents, str):
            raise InvalidProblem("documents", self.documents, "expected lengths separated by spaces")
        if not isinstance(self.expression, str):
            raise InvalidProblem("expression", self.expression, "expected a condition, such as k <= q")
        lengths = self.documents.replace(",", " ").split()
        are_numbers = all(length.isdecimal() and len(length) < 9 for length in lengths)
        if not are_numbers or sum(map(int, lengths)) > self.kv_len:
            accepted = f"expected lengths separated by spaces, at most kv_len={self.kv_len} together"
            raise InvalidProblem("documents", self.documents, accepted)
        node = self.mask_node
        if node and self.q_len > self.kv_len and node.asks_documents:
            raise InvalidProblem("q_len", self.q_len, f"documents take at most kv_len={self.kv_len} queries")

    @property
    def scale(self) -> float:
        """Factor on the scores, 1 / sqrt(head_dim)."""
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def itemsize(self) -> int:
        """Bytes of one element of query, key, value and output."""
        return DTYPES[self.dtype]

    @property
    def band(self) -> Band:
        """The mask if it is full, causal or a window; else the band that hides nothing."""
        bounds = (None, 0) if self.is_causal else self.window or (None, None)
        return Band.of(self.q_len, self.kv_len, *bounds)

    @property
    def window(self) -> tuple[int, int] | None:
        """Keys before and after the diagonal, if the mask is a window."""
        return (self.window_left, self.window_right) if self.mask == "window" else None

    @property
    def mask_words(self) -> str | None:
        """The mask as an expression; None if the band says it."""
        words = {
            "documents": "k <= q and doc(q) == doc(k)",
            "prefix": f"k <= q or k < {self.prefix}",
            "sinks": f"k <= q and (q - k <= {self.window_left} or k < {self.prefix})",
            "expression": self.expression,
        }
        return words.get(self.mask)

    @property
    def mask_node(self) -> Node | None:
        return parse(self.mask_words) if self.mask_words is not None else None

    @functools.cached_property
    def pattern(self) -> Pattern | None:
        """What the call asks beside a band; None if it asks nothing more."""
        asked = Pattern(
            self.band,
            self.mask_node,
            (self.batch, self.q_heads),
            tuple(map(int, self.documents.replace(",", " ").split())),
            self.softcap,
            alibi_slopes(self.q_heads) if self.alibi else (),
            sink_logits(self.q_heads, self.seed) if self.sink_logit else (),
        )
        return asked if asked.mask or asked.softcap or asked.slopes or asked.sinks else None

    @property
    def rule(self) -> Rule:
        """Which keys a query sees, and what is done to its scores: what the oracle computes by."""
        return self.pattern or self.band

    @property
    def heads(self) -> int:
        """Query heads of all batches."""
        return self.batch * self.q_heads

    @property
    def scores(self) -> int:
        """Entries of S, those that the mask hides too, of all heads."""
        return self.heads * self.q_len * self.kv_len

    @property
    def key_heads(self) -> int:
        """Key heads of all batches."""
        return self.batch * self.kv_heads

    @property
    def group_size(self) -> int:
        """Query heads that share one key head. Query head h reads key head h // group_size."""
        return self.q_heads // self.kv_heads

    @property
    def packed_rows(self) -> int:
        """Queries of all the heads that share one key head: split-KV decoding packs them into one tile."""
        return self.group_size * self.q_len

    @property
    def q_tiles(self) -> int:
        """Query tiles of one head."""
        return -(-self.q_len // self.block_m)

    @property
    def kv_tiles(self) -> int:
        """Key tiles of one head."""
        return -(-self.kv_len // self.block_n)

    @property
    def q_shape(self) -> tuple[int, int, int, int]:
        """(batch, q_heads, q_len, head_dim): of query and output."""
        return self.batch, self.q_heads, self.q_len, self.head_dim

    @property
    def kv_shape(self) -> tuple[int, int, int, int]:
        """(batch, kv_heads, kv_len, head_dim): of key and value."""
        return self.batch, self.kv_heads, self.kv_len, self.head_dim

    @property
    def is_causal(self) -> bool:
        return self.mask == "causal"

    def as_dict(self) -> dict[str, int | str]:
        """Field names to plain values, fit for JSON and for a URL."""
        return asdict(self)

    def with_(self, **changes: int | str) -> "AttentionProblem":
        """A copy with some fields changed, validated again."""
        return replace(self, **changes)  # type: ignore[arg-type]  # __post_init__ checks every field
