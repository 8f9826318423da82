"""Calls one check: the kernel, float64 attention, a low-precision reference, and the errors between them."""

import time
from dataclasses import replace

import torch

from kernels.check.case.cases import UPLOADED, USERS, CheckCase
from kernels.check.cause.hypotheses import Evidence, causes_of
from kernels.check.files.uploads import Upload
from kernels.check.judge.calls import Calls, quiet, tensors_of
from kernels.check.judge.compare import check_tensor, error_map
from kernels.check.judge.later_calls import later_failure
from kernels.check.judge.memory import memory_notes, order_finding, undefined_findings, watched
from kernels.check.result import CheckResult, ErrorMap, KeylessRows, TensorCheck
from kernels.check.subject.compiling import answer_of, ask_compiler
from kernels.check.subject.subjects import make_subject
from kernels.check.subject.user_errors import Broken, Refused, UserKernelError
from kernels.check.subject.user_kernel import user_kernel
from kernels.device.backend import device_info, utc_now
from kernels.device.interpreter import count_launches
from kernels.device.no_gpu import CONFIGURATIONS
from kernels.device.runtime import BACKEND, INTERPRETED
from kernels.oracle.rule import Comparison, compare_gradients
from kernels.sanitizer.watch import Watch
from kernels.worker.requests import Progress


def run_check(
    case: CheckCase, upload: Upload | None = None, progress: Progress = quiet, *, compiles: bool = False
) -> CheckResult:
    """Check the case on this machine's device.

    With `compiles`, the kernels that the interpreter runs of a user's function are compiled for a GPU too.
    Raises InvalidProblem if the case cannot be checked, and what the device raises, such as out of memory.
    """
    began = time.perf_counter()
    label = case.label(user_kernel(case.kernel).name if case.kernel in USERS else "")
    empty = CheckResult(case, label, device_info(BACKEND), utc_now(), 0.0)
    CONFIGURATIONS.begin()
    with count_launches(BACKEND == "interpreter") as launches:
        try:
            subject = None if case.kernel == UPLOADED else make_subject(case, launches)
        except Refused as error:
            return replace(empty, refused=str(error))
        except UserKernelError as error:
            return replace(empty, refused=str(error), trace=error.trace)
        calls, asked = Calls(case, subject, tensors_of(case, upload)), None
        with watched(case.kernel) as watch:  # after the kernel is loaded, which may change the interpreter
            watch.poison.on = True
            progress(0.05, "running the kernel")
            try:
                calls.first()
            except Refused as error:
                result = replace(empty, refused=str(error), notes=tuple(calls.notes))
            else:
                if compiles and case.kernel in USERS and INTERPRETED and launches:
                    asked = ask_compiler(case, user_kernel(case.kernel))
                result = _checked(empty, calls, watch, progress)
        if asked is not None:
            compiled = answer_of(asked)
            findings, notes = filter(None, (compiled.finding,)), filter(None, (compiled.note,))
            result = replace(result, findings=(*result.findings, *findings), notes=(*result.notes, *notes))
    return replace(result, interpreted=bool(launches), seconds=time.perf_counter() - began)


def _checked(empty: CheckResult, calls: Calls, watch: Watch, progress: Progress) -> CheckResult:
    """All parts of the check after the first run: what it returned before an error is judged."""
    progress(0.3, "comparing with float64")
    compared = _held_against_exact(calls)
    checks, maps = _compare(calls, compared)
    wrong = [check.name for check in checks if not check.passes]
    progress(0.6, "repeating the run")
    repeats = calls.repeat() if calls.subject and not calls.failure else None
    if calls.subject and not calls.failure and not wrong:
        calls.failure = later_failure(calls, compared)
    progress(0.8, "weighing the key tiles")
    weights, row_sums = weigh_keys(calls)
    progress(0.9, "looking for the cause")
    undefined = undefined_findings(watch, calls, repeats) if wrong or calls.failure else ()
    causes = causes_of(Evidence(calls, compared, wrong, row_sums)) if wrong and not undefined else ()
    in_order = order_finding(watch, calls, repeats, checks)
    findings = undefined + watch.findings + (in_order or ())
    return replace(
        empty,
        tensors=checks,
        maps=maps + weights,
        keyless=_keyless(calls),
        repeats=repeats,
        broken=str(calls.failure) if calls.failure else "",
        trace=calls.failure.trace if calls.failure else "",
        changed=calls.changed,
        findings=findings,
        causes=causes,
        notes=(*calls.notes, *memory_notes(watch, calls.case, findings, in_order is not None)),
    )


def _compare(
    calls: Calls, compared: dict[str, Comparison]
) -> tuple[tuple[TensorCheck, ...], tuple[ErrorMap, ...]]:
    """The checks of O, lse and the gradients, and the error maps of all but lse."""
    dtype = calls.case.problem.dtype
    checks, maps = [], []
    for name, comparison in compared.items():
        got = calls.got[name].to(comparison.exact.device)
        check, codes = check_tensor(name, got, comparison)
        checks.append(check)
        if name == "lse":
            continue
        difference = got.double() - comparison.exact
        maps.append(error_map(name, comparison.error, check.tolerance, difference, codes))
        if check.reference != dtype:
            calls.own_notes.append(
                f"Naive attention in {dtype} gives NaN or infinity for {name}: the allowed error is "
                f"that of {check.reference}."
            )
    return tuple(checks), tuple(maps)


def _held_against_exact(calls: Calls) -> dict[str, Comparison]:
    """O, lse and the gradients, as far as they were returned, by the rule."""
    problem, tensors, got = calls.case.problem, calls.tensors, calls.got
    if "O" not in got:
        return {}
    references = calls.references(tensors.inputs)
    compared = {"O": references.compare(got["O"])}
    if "lse" in got:
        compared["lse"] = references.compare_lse(got["lse"])
    if "dQ" in got:
        gradients = (got["dQ"], got["dK"], got["dV"])
        compared |= compare_gradients(
            problem, gradients, tensors.inputs, tensors.d_out, scale=calls.scale, band=calls.band
        )
    return compared


def _keyless(calls: Calls) -> KeylessRows | None:
    problem, got, count = calls.case.problem, calls.got, calls.band.keyless_rows
    if not count or "O" not in got:
        return None
    wrong_output = int((got["O"][:, :, :count] != 0).any(dim=-1).sum())
    wrong_lse = int((got["lse"][:, :, :count] != float("-inf")).sum()) if "lse" in got else 0
    return KeylessRows(count * problem.batch * problem.q_heads, wrong_output, wrong_lse)


def weigh_keys(calls: Calls) -> tuple[tuple[ErrorMap, ...], torch.Tensor | None]:
    """How much of its attention each row gives to each group of key tiles, against float64; and its sum.

    This is one more run, with values that are 1 in the column of their group of keys and 0 elsewhere: O then
    is the weight of each group. It shows at which keys any kernel goes wrong. Empty if it does not run.
    """
    if calls.subject is None or "O" not in calls.got:
        return (), None
    problem, (query, key, value) = calls.case.problem, calls.tensors.inputs
    probe, group = group_probe(value, problem.block_n)
    try:
        got, _ = calls.forward((query, key, probe))
    except (Refused, Broken):
        return (), None
    compared = calls.references((query, key, probe)).compare(got)
    groups = -(-problem.kv_len // group)
    weights, error = got.double()[..., :groups], compared.error[..., :groups]
    signed = weights - compared.exact[..., :groups]
    found = error_map("weights", error, compared.report.tolerance, signed)
    return (replace(found, column_step=group, columns=problem.kv_len),), weights.sum(dim=-1)


def group_probe(tensor: torch.Tensor, block: int) -> tuple[torch.Tensor, int]:
    """Values shaped as the tensor that tell groups of its rows apart, and the number of rows in a group.

    They are 1 in the column of their row's group and 0 elsewhere. A group is one tile of `block` rows, or
    several if the head has fewer columns than there are tiles.
    """
    length, head_dim = tensor.shape[2:]
    tiles_per_group = -(-length // (block * head_dim))
    group = tiles_per_group * block
    row = torch.arange(length, device=tensor.device)
    probe = torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    probe[:, :, row, row // group] = 1
    return probe, group
