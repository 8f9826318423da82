"""Beside Hugging Face's package `kernels`, which transformers imports by the name that is ours here."""

import os
import subprocess
import sys

import pytest

from tests import ROOT

OTHER = {
    "__init__.py": "from kernels.layer.mode import Mode\nfrom kernels._versions import newest\n",
    "_versions.py": "def newest():\n    return 2\n",
    "layer/__init__.py": "",
    "layer/mode.py": "class Mode:\n    TRAINING = 1\n",
}
"""As that package is built: its first module imports from its others by the package's name."""


def printed(folder, statements):
    """What a fresh process prints, in the project's folder, with packages of another folder behind it."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", statements]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return run.stdout.strip() or run.stderr.strip().splitlines()[-1]


@pytest.fixture
def folder(tmp_path):
    for path, text in OTHER.items():
        (tmp_path / "kernels" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kernels" / path).write_text(text)
    return tmp_path


def test_both_packages_are_imported_by_their_one_name(folder):
    both = "from kernels.layer.mode import Mode\nfrom kernels import newest, AttentionProblem, Trace\n"
    said = "print(newest(), Mode.TRAINING, AttentionProblem(q_len=8, kv_len=8).q_len, Trace.__module__)"
    assert printed(folder, both + said) == "2 1 8 kernels.trace.trace"


def test_a_name_of_neither_is_refused(folder, tmp_path_factory):
    for place in (folder, tmp_path_factory.mktemp("nothing")):
        said = printed(place, "from kernels import nothing")
        assert said.startswith("ImportError: cannot import name 'nothing' from 'kernels'")
