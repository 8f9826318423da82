"""The attention of language models: facts of nine, and a reader of Hugging Face's config.json."""

import tomllib
from pathlib import Path

from kernels.models.config import from_config, read_model
from kernels.models.model import KINDS, PHASES, Model

MODELS = {
    name: read_model(facts["config"], facts["name"], facts["source"])
    for name, facts in tomllib.loads((Path(__file__).parent / "models.toml").read_text("utf-8")).items()
}
"""By the name in a URL."""
FIRST_MODEL = "llama3_8b"

__all__ = ["FIRST_MODEL", "KINDS", "MODELS", "PHASES", "Model", "from_config", "read_model"]
