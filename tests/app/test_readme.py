"""README.md against what it describes: the table of speeds, the files to read, the commands."""

import re

import pytest

from kernels.recordings import recorded_document
from kernels.tools.compare import markdown_table, time_ratios
from tests import ROOT

README = (ROOT / "README.md").read_text()


def test_the_table_of_speeds_is_that_of_the_shipped_recording():
    assert markdown_table(time_ratios(recorded_document("sweeps").measurements)) in README


def test_every_file_of_the_kernels_stands_in_the_list():
    listed = set(re.findall(r"`(?:kernels/)?(\w+\.py)`", README.partition("## How to read this code")[2]))
    assert {path.name for path in (ROOT / "kernels").glob("*.py")} - {"__init__.py"} <= listed


def test_every_path_in_the_list_exists():
    for path in re.findall(r"`((?:kernels|viz|tests)/[\w/*.]+)`", README):
        assert list(ROOT.glob(path.rstrip("/"))), path


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m (kernels\.\w+)", README))))
def test_every_command_is_a_module_that_can_be_run(module):
    assert '__name__ == "__main__"' in (ROOT / f"{module.replace('.', '/')}.py").read_text()
