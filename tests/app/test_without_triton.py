"""Without Triton, as on macOS and Windows, the app replays what was recorded, and says what it cannot do."""

import os
import subprocess
import sys

from tests import ROOT

HIDES = """
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] == "triton" else found(name, path, target)
PathFinder.find_spec = find_spec
"""
"""Hides Triton from a process and from those that it starts."""
PAGES = """
from kernels import run_traced
from kernels.problem.presets import PRESETS
from tests.app.pages import mounted_player, open_page
for page in ("measure", "check", "model", "talk", "learn"):
    app = open_page(page)
    assert not app.exception, page
    assert any("replay" in markdown.value for markdown in app.markdown), page
assert mounted_player(open_page())["run"]["provenance"].startswith("recorded on NVIDIA")
problem = PRESETS["tiny"].problem.with_(q_len=16)
print(*(each.value for each in open_page(**problem.as_dict()).info))
try:
    run_traced(problem)
except RuntimeError as error:
    print(error)
"""


def test_every_page_opens_and_what_needs_a_kernel_says_why(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDES)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", PAGES]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    page, call = run.stdout.splitlines()
    assert page.startswith("Kernels cannot run here")
    assert call.startswith("No kernel can run here: Triton is not installed")
