"""Reports and the pipe: results survive every format, and the files load nothing."""

import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.judge.vary import run_sensitivity
from kernels.check.report.html import to_html
from kernels.check.report.report import Report, to_json
from kernels.check.result import (
    CheckResult,
    Determinism,
    Difference,
    Variation,
    maps_from_bytes,
    maps_to_bytes,
)
from kernels.problem import AttentionProblem

SMALL = AttentionProblem(q_len=36, kv_len=50, head_dim=16, block_m=16, block_n=32, mask="causal", q_heads=2)

DIFFERENCE = Difference("O", elements=3, of=576, ulps=1, largest=math.inf)
CHANGING = Determinism((Variation("splits", "3 parts", ("O",), (DIFFERENCE,)),))


def test_variations_that_did_not_run_are_not_among_those_that_give_the_same_bits():
    same, failed = Variation("runs", "run 2", ("O",)), Variation("batch", "of 4", ("O",), refused="it raised")
    assert "all 2 " in Determinism((same, same)).words
    assert "all 1 " in Determinism((same, failed)).words
    for words in ("other parts of the keys", "1 of 2 "):
        assert words in Determinism((*CHANGING.variations, failed)).words


@pytest.fixture(scope="module")
def result():
    return run_check(CheckCase(SMALL, "flash2", repeats=1))


def test_results_survive_the_pipe(result):
    again = msgspec.convert(json.loads(json.dumps(result.as_dict())), CheckResult)
    again = replace(again, maps=maps_from_bytes(maps_to_bytes(result.maps)))
    assert again.as_dict() == result.as_dict()
    assert [found.kind for found in again.maps] == ["O", "dQ", "dK", "dV", "weights"]
    for ours, theirs in zip(result.maps, again.maps, strict=True):
        for name, value in vars(ours).items():
            np.testing.assert_array_equal(getattr(theirs, name), value, strict=value is not None)


def test_the_json_report_is_strict_and_holds_the_numbers(result):
    spoiled = replace(result.tensors[0], max_error=math.inf, worst_value=math.nan)
    report = Report(replace(result, tensors=(spoiled, *result.tensors[1:])), determinism=CHANGING)
    (found,) = json.loads(to_json([report]), parse_constant=pytest.fail)["checks"]
    first, second = found["tensors"][:2]
    assert (found["verdict"], first["max_error"], first["worst_value"]) == ("fail", "inf", "nan")
    assert second["max_error"] == result.tensors[1].max_error
    assert found["case"]["problem"]["q_len"] == SMALL.q_len
    assert found["sensitivity"] is None
    assert found["determinism"]["variations"][0]["differences"][0]["largest"] == "inf"


def test_a_report_of_many_cases_holds_the_verdict_of_each(result):
    page = to_html(Report(result), all_results=[result, result])
    assert page.count(f"<td>{result.label}</td>") == page.count("<td>PASSES</td>") - len(result.tensors) == 2


def test_the_html_report_is_whole_and_loads_nothing(result):
    loaded, tags = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags.append(tag)
            links = (value for name, value in attributes if name in ("src", "href"))
            loaded.extend(link for link in links if not link.startswith("data:"))

    labelled = replace(result, label="<script>alert(1)</script>")
    page = to_html(Report(labelled, run_sensitivity(CheckCase(SMALL, "flash2")), CHANGING))
    Reader().feed(page)
    assert loaded == []
    assert "script" not in tags
    assert "url(" not in page
    assert tags.count("img") == sum(len(found.heads) for found in result.maps)
    assert page.count("<table>") == 7
    assert all(words in page for words in (DIFFERENCE.words, *(found.name for found in result.tensors)))
