"""The worker's job "check": one case, or how its error varies with tiles and scale."""

from __future__ import annotations

from collections.abc import Callable

from kernels.check.cases import CheckCase
from kernels.check.result import maps_to_bytes
from kernels.check.run import run_check
from kernels.check.sensitivity import run_sensitivity
from kernels.check.uploads import read_upload


def answer(request: dict, progress: Callable[[float, str], None]) -> tuple[dict, bytes]:
    """The answer to a job and its bytes, which are the error maps of a case and empty for the sensitivity.

    request["part"] is "case" or "sensitivity"; request["blob"] is the file whose digest the case names.
    """
    case = CheckCase.from_dict(request["problem"])
    upload = read_upload(request["blob"]) if case.upload else None
    if request["part"] == "sensitivity":
        return {"sensitivity": run_sensitivity(case, upload, progress).as_dict()}, b""
    result = run_check(case, upload, progress)
    return {"check": result.as_dict()}, maps_to_bytes(result.maps)
