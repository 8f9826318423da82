"""The attention of language models: facts of nine, and a reader of Hugging Face's config.json."""

import tomllib
from pathlib import Path

from kernels.models.config import read_model
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS

MODELS = {
    name: read_model(facts["config"], facts["name"], facts["source"])
    for name, facts in tomllib.loads((Path(__file__).parent / "models.toml").read_text("utf-8")).items()
}
"""By the name in a URL."""
FIRST_MODEL = "llama3_8b"

LENGTHS = (2048, 8192, 32768, 131072)
"""Tokens of which layers and heads are recorded."""


def model_heads() -> dict[str, AttentionProblem]:
    """One head of each kind of layer at LENGTHS, by the name of its recording; alike ones once."""
    known = {preset.problem for preset in PRESETS.values()}
    heads = {}
    for name, model in MODELS.items():
        for kind in model.kinds:
            for length in LENGTHS:
                problem = model.head(length, kind)
                if problem not in known:
                    known.add(problem)
                    heads[f"{name}-{kind}-{length}"] = problem
    return heads
