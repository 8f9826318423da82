"""Results for programs: JSON with all numbers, JUnit for test runners, SARIF for annotated lines."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from kernels import ROOT
from kernels.check.report.report import by_kernel, causes, outcome, overall, result_lines, summary
from kernels.check.result import FORMAT, FORMAT_VERSION, CheckResult
from kernels.check.subject.user_kernel import UserKernel
from kernels.file_format import strict
from kernels.oracle.report import RULE

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold; a kernel's error may have them."""

COUNTS = {"failure": "failures", "error": "errors", "skipped": "skipped"}
"""Outcomes of a test case, and the attributes of a suite that count them."""


VERSIONS = ("python", "torch", "triton")
"""Fields of a device."""


def project_version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def to_json(
    results: Sequence[CheckResult], command: str = "", hashes: Mapping[str, str] | None = None
) -> str:
    """The results as JSON, without the maps. NaN and infinities are strings.

    `hashes` has the SHA-256 of the file of each of the user's kernels. There is at least one result.
    """
    kernels = [
        {
            "label": found[0].label,
            "sha256": (hashes or {}).get(found[0].case.kernel),
            "verdict": overall(found),
            "summary": summary(found),
            "causes": causes(found),
        }
        for found in by_kernel(results)
    ]
    device = msgspec.to_builtins(results[0].device)
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "rule": RULE,
        "command": command,
        "versions": {"project": project_version()} | {name: device[name] for name in VERSIONS},
        "device": device,
        "seeds": sorted({result.case.problem.seed for result in results}),
        "kernels": kernels,
        "checks": [result.as_dict() for result in results],
    }
    return json.dumps(strict(document), indent=1, allow_nan=False) + "\n"


def to_junit(results: Sequence[CheckResult]) -> str:
    """A test suite per kernel with a test case per case, and one more if too few of them were checked."""
    root = ElementTree.Element("testsuites")
    for found in by_kernel(results):
        label, at = found[0].label, found[0].checked_at
        rows = [
            (each.case.words, outcome(each), each.seconds, [each.reason, *result_lines(each)])
            for each in found
        ]
        if overall(found) in ("few", "invalid"):
            rows.append(("verdict", "error", 0.0, [summary(found)]))
        counts = {name: str(sum(row[1] == kind for row in rows)) for kind, name in COUNTS.items()}
        counts |= {"name": label, "tests": str(len(rows)), "timestamp": at}
        suite = ElementTree.SubElement(root, "testsuite", counts)
        words = {"name": "summary", "value": NOT_XML.sub("?", summary(found))}
        ElementTree.SubElement(ElementTree.SubElement(suite, "properties"), "property", words)
        for name, kind, took_s, lines in rows:
            case = ElementTree.SubElement(suite, "testcase", classname=label, name=name, time=f"{took_s:.3f}")
            if kind:
                said = ElementTree.SubElement(case, kind, message=NOT_XML.sub("?", lines[0]))
                said.text = NOT_XML.sub("?", "\n".join(lines[1:]))
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def to_sarif(results: Sequence[CheckResult], own: Mapping[str, UserKernel]) -> str:
    """SARIF 2.1.0: what is wrong with the user's kernels, each finding at its line, the rest in line 1."""
    messages: dict[tuple[str, Path, int], str] = {}
    for name, kernel in own.items():
        found = [result for result in results if result.case.kernel == name]
        for finding in (each for result in found for each in result.findings):
            at = (Path(finding.file), finding.line) if finding.file else (kernel.path, 1)
            messages.setdefault((finding.kind, *at), finding.words)
        if found and overall(found) == "fail":
            messages["wrong result", kernel.path, 1] = ". ".join([summary(found), *causes(found)])
    rows = []
    for (kind, path, line), words in messages.items():
        place = {"artifactLocation": {"uri": path.resolve().as_uri()}, "region": {"startLine": line}}
        rule = {"ruleId": kind, "level": "error", "message": {"text": words}}
        rows.append(rule | {"locations": [{"physicalLocation": place}]})
    driver = {"name": FORMAT, "version": project_version()}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": rows}]}, indent=1)
