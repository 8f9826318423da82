"""Memory faults on the command line: the verdict, the words, the file; and what a watch must not disturb."""

import json

import pytest

from kernels.device.runtime import DEVICE
from kernels.tools.check import main
from tests import BUGGY_KERNEL
from tests.kernels.sanitizer import cases

if DEVICE != "cpu":
    pytest.skip("the interpreter is off on a GPU", allow_module_level=True)

SMALL = ["--shapes", "49x70", "--head-dim", "16", "--forward", "--repeats", "2"]
FLEX = """
from torch.nn.attention.flex_attention import flex_attention
def attention(query, key, value):
    return flex_attention(query, key, value)
"""


def test_a_read_out_of_bounds_fails_with_its_line_although_the_result_is_right(capsys, tmp_path):
    report = tmp_path / "report.json"
    kernel = f"{cases.__file__}:reads_past_keys"
    arguments = ["--kernel", kernel, "--shapes", "113x203", "--forward", "--json", str(report)]
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("FAIL")
    assert "out-of-bounds read: program (0, 0, 0) of _attend reads element 12,992 of k" in printed
    (check,) = json.loads(report.read_text())["checks"]
    assert [finding["kind"] for finding in check["findings"]] == ["out-of-bounds read"]
    assert all(tensor["passes"] for tensor in check["tensors"])


def test_bfloat16_is_exact_in_the_first_case_of_a_process(capsys):
    assert main(["--kernel", f"{BUGGY_KERNEL}:attention_fixed", *SMALL, "--dtype", "bfloat16"]) == 0
    assert "Memory, watched in the interpreter" in capsys.readouterr().out


def test_a_function_that_is_compiled_by_torch_runs_as_without_a_watch(capsys, tmp_path):
    path = tmp_path / "flex.py"
    path.write_text(FLEX)
    assert main(["--kernel", f"{path}:attention", *SMALL]) == 0
    assert "Memory" not in capsys.readouterr().out
