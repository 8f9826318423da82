"""Runs one check: the kernel, float64 attention, a low-precision reference, and the errors between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from kernels.check.cases import UPLOADED, USERS, CheckCase
from kernels.check.compare import check_tensor, error_map
from kernels.check.compiler import Compiled, ask_compiler
from kernels.check.error_maps import ErrorMap
from kernels.check.hypotheses import Evidence, causes_of
from kernels.check.later_calls import later_failure
from kernels.check.memory import memory_notes, order_finding, undefined_findings, watched
from kernels.check.result import Cause, CheckResult, KeylessRows, TensorCheck, label_of
from kernels.check.runs import Runs, tensors_of
from kernels.check.subjects import make_subject
from kernels.check.uploads import Upload
from kernels.check.user_errors import Refused
from kernels.check.user_kernel import UserKernelError, user_kernel
from kernels.check.weights import weigh_keys, weigh_queries
from kernels.device.backend import device_info, utc_now
from kernels.device.interpreter import count_launches
from kernels.device.no_gpu import CONFIGURATIONS
from kernels.device.runtime import BACKEND, INTERPRETED
from kernels.oracle.rule import GRADIENTS, Comparison, compare_gradients
from kernels.sanitizer.watch import Watch

Progress = Callable[[float, str], None]


def run_check(
    case: CheckCase,
    upload: Upload | None = None,
    progress: Progress = lambda fraction, words: None,
    *,
    compiles: bool = False,
) -> CheckResult:
    """Check the case on this machine's device.

    With `compiles`, what the interpreter runs of a user's function is compiled for a GPU too.
    Raises InvalidProblem if the case cannot be checked, and what the device raises, such as out of memory.
    """
    began = time.perf_counter()
    user_name = user_kernel(case.kernel).name if case.kernel in USERS else ""
    empty = CheckResult(case, label_of(case, user_name), device_info(BACKEND), utc_now(), 0.0)
    is_users = case.kernel in USERS
    CONFIGURATIONS.begin()
    with count_launches(BACKEND == "interpreter") as launches:
        try:
            subject = None if case.kernel == UPLOADED else make_subject(case, launches)
        except Refused as error:
            return replace(empty, refused=str(error))
        except UserKernelError as error:
            return replace(empty, refused=str(error), trace=error.trace)
        asked = (
            ask_compiler(case, user_kernel(case.kernel)) if compiles and is_users and INTERPRETED else None
        )
        runs = Runs(case, subject, tensors_of(case, upload))
        with watched(is_users) as watch:  # after the kernel is loaded, which may change the interpreter
            watch.poison.on = True
            result = _checked(empty, runs, watch, progress)
        if asked is not None:
            result = _with_compiler(result, asked.answer())
    return replace(result, interpreted=bool(launches), seconds=time.perf_counter() - began)


def _with_compiler(result: CheckResult, compiled: Compiled) -> CheckResult:
    """The result with what the compiler says of the kernels."""
    if result.refused:
        return result
    findings = (compiled.finding,) if compiled.finding else ()
    notes = (compiled.note,) if compiled.note else ()
    return replace(result, findings=result.findings + findings, notes=result.notes + notes)


def _checked(empty: CheckResult, runs: Runs, watch: Watch, progress: Progress) -> CheckResult:
    """All parts of the check, as far as the kernel goes: what it returned before an error is judged."""
    progress(0.05, "running the kernel")
    try:
        runs.first()
    except Refused as error:
        return replace(empty, refused=str(error), notes=tuple(runs.notes))
    progress(0.3, "comparing with float64")
    compared = _held_against_exact(runs)
    checks, maps = _compare(runs, compared)
    progress(0.6, "repeating the run")
    repeats = runs.repeat() if runs.subject and not runs.failure else None
    if runs.subject and not runs.failure and all(check.passes for check in checks):
        runs.failure = later_failure(runs, compared)
    progress(0.8, "weighing the key tiles")
    weights, row_sums = weigh_keys(runs)
    causes: tuple[Cause, ...] = ()
    wrong = [check.name for check in checks if not check.passes]
    progress(0.9, "looking for the cause")
    undefined = undefined_findings(watch, runs, repeats) if wrong or runs.failure else ()
    if wrong and not undefined:
        tensors = (*runs.tensors.inputs, runs.tensors.d_out)
        layout, band = runs.case.layout, runs.band
        evidence = Evidence(tensors, runs.got, compared, wrong, runs.scale, band, layout, row_sums)
        causes = causes_of(evidence)
        weights += weigh_queries(runs) if set(wrong) & set(GRADIENTS) else ()
    in_order = order_finding(watch, runs, repeats, checks)
    findings = undefined + watch.findings + (in_order or ())
    return replace(
        empty,
        tensors=checks,
        maps=maps + weights,
        keyless=_keyless(runs),
        repeats=repeats,
        broken=str(runs.failure) if runs.failure else "",
        trace=runs.failure.trace if runs.failure else "",
        changed=runs.changed,
        findings=findings,
        causes=causes,
        notes=(*runs.notes, *memory_notes(watch, runs.case, findings, in_order is not None)),
    )


def _compare(
    runs: Runs, compared: dict[str, Comparison]
) -> tuple[tuple[TensorCheck, ...], tuple[ErrorMap, ...]]:
    """The checks of O, lse and the gradients, and the error maps of all but lse."""
    dtype = runs.case.problem.dtype
    checks, maps = [], []
    for name, comparison in compared.items():
        got = runs.got[name].to(comparison.exact.device)
        check, codes = check_tensor(name, got, comparison)
        checks.append(check)
        if name == "lse":
            continue
        difference = got.double() - comparison.exact
        maps.append(error_map(name, comparison.error, check.tolerance, codes, difference))
        if check.reference != dtype:
            runs.own_notes.append(
                f"Naive attention in {dtype} gives NaN or infinity for {name}: the allowed error is "
                f"that of {check.reference}."
            )
    return tuple(checks), tuple(maps)


def _held_against_exact(runs: Runs) -> dict[str, Comparison]:
    """O, lse and the gradients, as far as they were returned, by the rule."""
    problem, tensors, got = runs.case.problem, runs.tensors, runs.got
    if "O" not in got:
        return {}
    references = runs.references(tensors.inputs)
    compared = {"O": references.compare(got["O"])}
    if "lse" in got:
        compared["lse"] = references.compare_lse(got["lse"])
    if "dQ" in got:
        gradients = (got["dQ"], got["dK"], got["dV"])
        compared |= compare_gradients(
            problem, gradients, tensors.inputs, tensors.d_out, scale=runs.scale, band=runs.band
        )
    return compared


def _keyless(runs: Runs) -> KeylessRows | None:
    problem, got = runs.case.problem, runs.got
    count = runs.band.keyless_rows
    if not count or "O" not in got:
        return None
    per_head = problem.batch * problem.q_heads
    wrong_output = int((got["O"][:, :, :count] != 0).any(dim=-1).sum())
    wrong_lse = int((got["lse"][:, :, :count] != float("-inf")).sum()) if "lse" in got else 0
    return KeylessRows(count * per_head, wrong_output, wrong_lse)
