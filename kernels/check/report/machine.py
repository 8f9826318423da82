"""Results for programs: JSON with all numbers. For a file of JUnit, run the plugin of pytest."""

import json
import tomllib
from collections.abc import Mapping, Sequence

import msgspec

from kernels import ROOT
from kernels.check.report.report import by_kernel, causes, overall, summary
from kernels.check.result import FORMAT, FORMAT_VERSION, CheckResult
from kernels.file_format import strict
from kernels.oracle.report import RULE

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
