"""The description of an attention problem, and its validation."""

import math
from dataclasses import asdict, dataclass, replace

from kernels.problem.band import Band
from kernels.problem.words import LONGEST

DTYPES = {"float16": 2, "bfloat16": 2, "float32": 4}
"""Accepted element types and the size of one element in bytes."""

MASKS = ("full", "causal", "window")
INPUTS = ("normal", "growing_max", "falling_max", "large", "one_hot", "constant", "text")
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
}
"""Smallest and largest accepted value of each whole-number field."""
_CHOICES = {"dtype": DTYPES, "mask": MASKS, "inputs": INPUTS, "block_m": BLOCKS, "block_n": BLOCKS}


class InvalidProblem(ValueError):
    """A problem that no kernel accepts. `field` is the name of the field that is wrong."""

    def __init__(self, field: str, given: object, accepted: str, remedy: str = "") -> None:
        self.field = field
        self.reason = f"{accepted}.{' ' + remedy if remedy else ''}"
        """What is accepted, and what to do."""
        super().__init__(f"{field}={given!r} is not accepted: {self.reason}")

    @classmethod
    def from_message(cls, field: str, message: str) -> "InvalidProblem":
        """The same failure in another process, from its field and its whole message."""
        error = cls(field, None, "")
        error.args = (message,)
        return error


@dataclass(frozen=True)
class AttentionProblem:
    """Shapes, element type, mask, tile sizes and inputs of one attention call.

    Query is (batch, q_heads, q_len, head_dim); key and value are (batch, kv_heads, kv_len, head_dim), as in
    `torch.nn.functional.scaled_dot_product_attention`. A causal mask is aligned to the bottom right: query i
    sees the keys j <= i + kv_len - q_len. A window mask keeps the key on that diagonal, `window_left` keys
    before it and `window_right` keys after it. `block_m` and `block_n` are the rows of a query tile and of a
    key tile. `kv_splits` is for split-KV decoding: the number of parts that the keys are split into, 0 for as
    many as fill the device.

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
        """The mask."""
        window = (self.window_left, self.window_right)
        bounds = {"full": (None, None), "causal": (None, 0), "window": window}
        return Band.of(self.q_len, self.kv_len, *bounds[self.mask])

    @property
    def heads(self) -> int:
        """Query heads of all batches."""
        return self.batch * self.q_heads

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
        """Whether the mask is the causal one."""
        return self.mask == "causal"

    def as_dict(self) -> dict[str, int | str]:
        """Field names to plain values, fit for JSON and for a URL."""
        return asdict(self)

    def with_(self, **changes: int | str) -> "AttentionProblem":
        """A copy with some fields changed, validated again."""
        return replace(self, **changes)  # type: ignore[arg-type]  # __post_init__ checks every field
