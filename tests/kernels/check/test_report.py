"""Reports and the shell: results survive every format, and the exit status is the verdict."""

import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.check import __main__ as command_line
from kernels.check import run as check_run
from kernels.check.cases import CheckCase
from kernels.check.report import shell_command, to_html, to_json
from kernels.check.result import CheckResult, maps_from_bytes, maps_to_bytes
from kernels.check.run import run_check
from kernels.check.sensitivity import run_sensitivity
from kernels.device.runtime import BACKEND
from kernels.problem import AttentionProblem
from tests import BUGGY_KERNEL as BUGGY

SMALL = AttentionProblem(q_len=36, kv_len=50, head_dim=16, block_m=16, block_n=32, mask="causal", q_heads=2)


@pytest.fixture(scope="module")
def result():
    return run_check(CheckCase(SMALL, "flash2", repeats=1))


def test_results_survive_the_pipe(result):
    again = CheckResult.from_dict(
        json.loads(json.dumps(result.as_dict())), maps_from_bytes(maps_to_bytes(result.maps))
    )
    assert again.as_dict() == result.as_dict()
    assert [found.kind for found in again.maps] == ["O", "dQ", "dK", "dV", "weights"]
    for ours, theirs in zip(result.maps, again.maps, strict=True):
        assert np.array_equal(ours.values, theirs.values)
        assert (ours.row_step, ours.column_step, ours.rows, ours.columns) == (
            theirs.row_step,
            theirs.column_step,
            theirs.rows,
            theirs.columns,
        )


def test_the_json_report_is_strict_and_holds_the_numbers(result):
    spoiled = replace(
        result,
        tensors=(replace(result.tensors[0], max_error=math.inf, worst_value=math.nan), *result.tensors[1:]),
    )
    document = json.loads(to_json([spoiled], [None]), parse_constant=pytest.fail)
    (found,) = document["checks"]
    assert (found["verdict"], found["tensors"][0]["max_error"], found["tensors"][0]["worst_value"]) == (
        "fail",
        "inf",
        "nan",
    )
    assert found["tensors"][1]["max_error"] == result.tensors[1].max_error
    assert found["case"]["problem"]["q_len"] == SMALL.q_len


def test_the_html_report_is_whole_and_loads_nothing(result):
    loaded, tags = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags.append(tag)
            loaded.extend(
                value
                for name, value in attributes
                if name in ("src", "href") and not value.startswith("data:")
            )

    page = to_html(
        replace(result, label="<script>alert(1)</script>"), run_sensitivity(CheckCase(SMALL, "flash2"))
    )
    Reader().feed(page)
    assert loaded == []
    assert "script" not in tags
    assert "url(" not in page
    assert tags.count("img") == sum(len(found.heads) for found in result.maps)
    assert "PASSES" in page
    assert "Tile sizes" in page


def test_the_command_of_a_report_repeats_the_check(result, monkeypatch):
    seen = []

    def run(case, upload):
        seen.append(case)
        return result

    monkeypatch.setattr(check_run, "run_check", run)
    problem = SMALL.with_(
        mask="window", window_left=7, window_right=2, inputs="large", seed=5, dtype="bfloat16"
    )
    for case in (CheckCase(problem, "flash1", False, 7), CheckCase(SMALL)):
        assert command_line.main(shell_command(case).split()[3:]) == 0
        assert seen.pop() == case


def test_exit_status_is_the_verdict(capsys, tmp_path):
    small = ["--shapes", "32", "--head-dim", "16", "--repeats", "1"]
    assert (
        command_line.main(
            [
                *small,
                "--kernel",
                "flash2",
                "--json",
                str(tmp_path / "a.json"),
                "--html",
                str(tmp_path / "a.html"),
            ]
        )
        == 0
    )
    assert "PASS    32x32 d16" in capsys.readouterr().out
    assert json.loads((tmp_path / "a.json").read_text())["command"].startswith(
        "python -m kernels.check --shapes 32"
    )
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert command_line.main([*small, "--shapes", "64", "--kernel", f"{BUGGY}:attention"]) == 1
    assert "FAILS" in capsys.readouterr().out
    refused = tmp_path / "mine.py"
    refused.write_text("def attention(q, k, v):\n    raise NotImplementedError('not yet')\n")
    assert command_line.main([*small, "--kernel", f"{refused}:attention"]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kernel", "flash9"], "kernel='flash9' is not accepted: expected one of flash_attention"),
        (["--kernel", "none.py:f"], "there is no file none.py here"),
        (["--shapes", "12y5"], "shapes='12y5' is not accepted"),
        (["--head-dim", "7"], "head_dim=7 is not accepted"),
        (["--mask", "round"], "mask='round' is not accepted"),
        (["--blocks", "64"], "expected two numbers"),
        (["--repeats", "0"], "repeats=0 is not accepted"),
        (["--file", "none.npz"], "none.npz"),
        (["--kernel", "sdpa_flash" if BACKEND == "interpreter" else "sdpa"], "on this device"),
    ],
)
def test_wrong_arguments_are_explained_and_exit_with_2(arguments, words, capsys):
    assert command_line.main(arguments) == 2
    assert words in capsys.readouterr().err


def test_a_result_computed_elsewhere_is_judged_as_it_is(tmp_path, capsys):
    problem = AttentionProblem(q_len=20, kv_len=30, head_dim=16, dtype="float32", mask="causal")
    trace = run_traced(problem.with_(block_m=16, block_n=16))
    query, key, value = (tensor.cpu().numpy() for tensor in check_run.make_inputs(problem, "cpu"))
    for factor, status in ((1, 0), (1.01, 1)):
        np.savez(tmp_path / "mine.npz", Q=query, K=key, V=value, O=trace.output * factor, lse=trace.lse)
        assert (
            command_line.main(["--file", str(tmp_path / "mine.npz"), "--mask", "causal", "--forward"])
            == status
        )
    assert "20x30" in capsys.readouterr().out
