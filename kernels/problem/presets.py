"""Problems to start from. Their runs are recorded on a GPU, so that every machine can show them at once."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from kernels.problem.attention_problem import AttentionProblem


@dataclass(frozen=True)
class Preset:
    """A named problem and, in one line, what it shows."""

    label: str
    purpose: str
    problem: AttentionProblem
    algorithm: str | None = None
    """Name of the algorithm that the problem is about; None if it suits all of them."""


_FILE = Path(__file__).with_suffix(".toml")
PRESETS = {
    name: Preset(**fields | {"problem": AttentionProblem(**fields["problem"])})
    for name, fields in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}

FIRST_PRESET = "gpt2"
"""That of the values which a link leaves out."""
FIRST_VISIT = "text"
"""That of a link to Explore which names no field of the problem and no algorithm."""

_LANES = AttentionProblem(q_len=2048, kv_len=2048, block_m=128, block_n=128)
LANE_PROBLEMS = {
    f"{mask}{d}": _LANES.with_(q_heads=2048 // d, kv_heads=2048 // d, head_dim=d, mask=mask)
    for d in (64, 128)
    for mask in ("full", "causal")
}
"""Problems that keep all SMs of a large GPU busy. The lanes of their kernels are recorded, not the traces."""
