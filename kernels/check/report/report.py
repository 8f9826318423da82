"""The report of a check as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kernels.check.report.words import by_kernel, causes, hints, overall, summary
from kernels.check.result import (
    FORMAT,
    FORMAT_VERSION,
    ULP_EDGES,
    CheckResult,
    Determinism,
    Sensitivity,
)
from kernels.file_format import strict
from kernels.oracle.report import RULE


@dataclass(frozen=True)
class Report:
    """What is reported of one case: its verdict, and what came of varying it if that was asked for."""

    result: CheckResult
    sensitivity: Sensitivity | None = None
    determinism: Determinism | None = None

    def as_dict(self) -> dict:
        """Field names to plain values, without the maps."""
        varied = {"sensitivity": self.sensitivity, "determinism": self.determinism}
        return self.result.as_dict() | msgspec.to_builtins(varied)


def to_json(reports: Sequence[Report], command: str = "") -> str:
    """The reports as JSON, without the maps. NaN and infinities are strings."""
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "rule": RULE,
        "command": command,
        "ulp_edges": list(ULP_EDGES),
        "kernels": [
            {
                "label": found[0].label,
                "verdict": overall(found),
                "summary": summary(found),
                "causes": causes(found),
                "hints": hints(found),
            }
            for found in by_kernel([report.result for report in reports])
        ],
        "checks": [report.as_dict() for report in reports],
    }
    return json.dumps(strict(document), indent=1, allow_nan=False) + "\n"
