"""Reports and the shell: results survive every format, and the exit status is the verdict."""

import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from kernels.check.cases import CheckCase
from kernels.check.error_maps import maps_from_bytes, maps_to_bytes
from kernels.check.report import Report, to_html, to_json
from kernels.check.result import CheckResult
from kernels.check.run import run_check
from kernels.check.sensitivity import run_sensitivity
from kernels.check.variations import Determinism, Difference, Variation
from kernels.problem import AttentionProblem

SMALL = AttentionProblem(q_len=36, kv_len=50, head_dim=16, block_m=16, block_n=32, mask="causal", q_heads=2)

DIFFERENCE = Difference("O", elements=3, of=576, ulps=1, largest=math.inf)
CHANGING = Determinism((Variation("splits", "3 parts", ("O",), (DIFFERENCE,)),))


def test_variations_that_did_not_run_are_not_among_those_that_give_the_same_bits():
    same, failed = Variation("runs", "run 2", ("O",)), Variation("batch", "of 4", ("O",), refused="it raised")
    assert Determinism((same, same)).words == "all 2 variations give the same bits"
    rest = "1 of 2 variations did not run"
    assert Determinism((same, failed)).words == f"{rest}, the others give the same bits"
    changing = Determinism((*CHANGING.variations, failed))
    assert changing.words == f"the bits change with other parts of the keys; {rest}"


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
    document = json.loads(to_json([Report(spoiled)]), parse_constant=pytest.fail)
    (found,) = document["checks"]
    assert (found["verdict"], found["tensors"][0]["max_error"], found["tensors"][0]["worst_value"]) == (
        "fail",
        "inf",
        "nan",
    )
    assert found["tensors"][1]["max_error"] == result.tensors[1].max_error
    assert found["case"]["problem"]["q_len"] == SMALL.q_len


def test_what_the_bits_depend_on_is_in_the_json_report(result):
    document = json.loads(to_json([Report(result, determinism=CHANGING)]), parse_constant=pytest.fail)
    (found,) = document["checks"]
    assert found["sensitivity"] is None
    assert found["determinism"]["variations"][0]["differences"][0]["largest"] == "inf"


def test_a_report_of_many_cases_spells_a_verdict_in_one_way(result):
    page = to_html(Report(result), all_results=[result, result])
    assert page.count("PASSES") == 5  # the title of the file, the kernel, two rows and the case
    assert "PASS." not in page


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

    labelled = replace(result, label="<script>alert(1)</script>")
    page = to_html(Report(labelled, run_sensitivity(CheckCase(SMALL, "flash2")), CHANGING))
    Reader().feed(page)
    assert loaded == []
    assert "script" not in tags
    assert "url(" not in page
    assert tags.count("img") == sum(len(found.heads) for found in result.maps)
    assert "PASSES" in page
    assert "Tile sizes" in page
    assert "The bits change with other parts of the keys." in page
    assert "O: 3 of 576 elements differ, by up to 1 ulp" in page
