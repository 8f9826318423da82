"""An algorithm is added in one folder: the one in `tests/algorithms/two_pass/` is known nowhere else.

FLASH_ATTENTION_ALGORITHMS names the folder, in processes of their own, so that other tests do not see it.
"""

import ast
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from kernels.algorithms import ALGORITHMS, FURTHER_FOLDERS
from tests import ROOT

FOLDER = ROOT / "tests" / "algorithms"
TESTS = FOLDER / "verbs.py"
VERBS = [
    node.name
    for node in ast.parse(TESTS.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What went wrong in each test of `verbs.py`, by its name; "" if nothing did."""
    report = tmp_path_factory.mktemp("verbs") / "report.xml"
    options = ["-n", "0", "-p", "no:cacheprovider", f"--junitxml={report}", TESTS]
    command, environment = [sys.executable, "-m", "pytest", *options], {FURTHER_FOLDERS: str(FOLDER)}
    ended = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
    assert report.exists(), ended.stdout + ended.stderr
    cases = ElementTree.parse(report).iter("testcase")
    return {case.get("name"): "\n".join(part.text or "" for part in case) for case in cases}


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_change_elsewhere(verb, outcomes):
    assert outcomes[verb] == ""


def test_other_tests_do_not_see_it():
    assert "two_pass" not in ALGORITHMS


def importing(folder):
    """What a process says that imports the registry with a further folder."""
    command = [sys.executable, "-c", "import kernels.algorithms"]
    environment = os.environ | {FURTHER_FOLDERS: str(folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True).stderr


def test_a_second_algorithm_of_a_name_is_refused(tmp_path):
    copy = tmp_path / "same_name"
    copy.mkdir()
    (copy / "__init__.py").touch()
    entry = (FOLDER / "two_pass" / "entry.py").read_text()
    (copy / "entry.py").write_text(entry.replace('name="two_pass"', 'name="flash2"'))
    expected = "two algorithms are called 'flash2'; give kernels.algorithms.same_name another name"
    assert expected in importing(tmp_path)


def test_a_folder_is_named_from_the_project_and_has_to_exist():
    assert importing("tests/algorithms") == ""
    assert f"names {ROOT}/test/algorithms, which is not a folder" in importing("test/algorithms")
