"""Calls one check: the kernel, float64 attention, a low-precision reference, and the errors between them.

Later calls follow: the same inputs again, with gradients, other numbers, other configurations. A kernel that
keeps something of a call is right at first and wrong later: in another call, in the backward pass of a call
before the last, or in the second backward pass of one call.
"""

import time
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from kernels.check.case.cases import USERS, CheckCase
from kernels.check.case.layouts import NAMES, Handed
from kernels.check.cause.hypotheses import Evidence, causes_of
from kernels.check.judge.calls import Calls, bits_differ, difference, quiet
from kernels.check.report.report import NEEDS_GPU
from kernels.check.result import UNUSABLE, CheckResult, ErrorMap, Repeats, TensorCheck
from kernels.check.subject.subjects import AttachedCall, make_subject
from kernels.check.subject.user_errors import Broken, Refused, UserKernelError, ended_by
from kernels.check.subject.user_kernel import user_kernel
from kernels.device.backend import device_info, utc_now
from kernels.device.interpreter import count_launches
from kernels.device.runtime import BACKEND, DEVICE, INTERPRETED
from kernels.oracle.exact import Inputs
from kernels.oracle.naive import whole_mask
from kernels.oracle.rule import GRADIENTS, Comparison, absolute_error, compare_gradients, mean_of
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.sanitizer.finding import ON_A_GPU, Finding
from kernels.sanitizer.poison import finding_of
from kernels.worker.failures import JobFailure
from kernels.worker.requests import Progress

MOST_SCORES = 2**22
"""Other numbers are tried for problems up to so many scores: float64 is computed for them once more."""
BATTERY_SCORES = 4_000
"""With two runs or fewer, as in the battery, the graphs of several calls are tried up to so many scores."""
MOST_IN_THE_BATTERY = 2
"""Configurations that a case tries besides the first with two runs or fewer, as in the battery. Which ones
changes from case to case, so that all of the cases together try more."""
MOST = 16
"""The same for a case with more calls."""

MOST_LOADS = 12
"""Lines whose undefined values are followed, one run for each."""
MAP_ROWS, MAP_COLUMNS = 160, 128
"""The most rows and columns of cells that a map has."""

Compared = dict[str, Comparison]


class Wrong(Broken):
    """A later call failed, or its result is not what the first call's was."""


def later_failure(calls: Calls, compared: Compared) -> Broken | None:
    """What is wrong with a later call, although the first one was as `compared` says; None if nothing is."""
    try:
        _hold("a later call on the same inputs is wrong, unlike the first", calls.later, compared)
        if calls.trained is not None and calls.case.kernel in USERS:
            words = "with inputs that require gradients its result is wrong, unlike without"
            _hold(words, {"O": calls.trained}, compared)
        for words, way in WAYS.items():
            try:
                way(calls, compared)
            except Wrong:
                raise
            except (Broken, Refused) as error:
                raise Wrong.of(f"a later call, {words}, failed", error) from error
        _with_other_configurations(calls, compared)
    except Wrong as failure:
        return failure
    return None


def _hold(words: str, got: dict[str, torch.Tensor], compared: Compared) -> None:
    """Raises Wrong if a tensor is further from the exact one than the rule allows."""
    for name in filter(compared.__contains__, got):
        right = compared[name]
        error = float(absolute_error(got[name].to(right.exact.device), right.exact).max())
        allowed = right.report.tolerance
        if not error <= allowed:
            raise Wrong(f"{words}: {name} is off by {error:.1e}; {allowed:.1e} is allowed")


def _with_other_numbers(calls: Calls, compared: Compared) -> None:
    """Call again after other numbers were written into the same tensors, and once more into their memory.

    The first result must stay as it was, and the later ones must be those of the other numbers. If they
    are not in new tensors either, it is not the memory that makes them wrong.
    """
    subject = calls.subject
    expanded = calls.case.layout == "expanded"  # torch writes no numbers into such a tensor
    if expanded or calls.case.problem.scores > MOST_SCORES:
        return
    handed, others = Handed(calls.inputs, calls.case.layout), _other_inputs(calls)
    first, _ = subject.forward(*handed.tensors)
    kept = first.clone()
    for tensor, other in zip(handed.tensors, others, strict=True):
        tensor.copy_(other)
    references = calls.references(others)

    def hold(words: str, out: torch.Tensor, lse: torch.Tensor | None) -> None:
        got, right = {"O": out}, {"O": references.compare(out)}
        if lse is not None:
            got["lse"] = calls.by_convention(lse)
            right["lse"] = references.compare_lse(got["lse"])
        _hold(words, got, right)

    for place in ("the same tensors", "other tensors in the same memory"):
        results = subject.forward(*handed.tensors)
        if not torch.equal(first.nan_to_num(), kept.nan_to_num()):
            raise Wrong("its result is overwritten by the next call: both calls return the same memory")
        try:
            hold(f"with other numbers in {place} a later call is wrong", *results)
        except Wrong:
            anew = subject.forward(*Handed(others, calls.case.layout).tensors)
            hold("with other numbers of this shape it is wrong, in new tensors too", *anew)
            raise


def _other_inputs(calls: Calls) -> Inputs:
    problem = calls.case.problem
    return make_inputs(problem.with_(seed=problem.seed - 1 if problem.seed else 1), DEVICE)


def _attached_call(calls: Calls) -> AttachedCall | None:
    """The user's call that keeps its graph; None if there is none, or the problem is too large to try it."""
    most = MOST_SCORES if calls.case.repeats > 2 else BATTERY_SCORES
    tried = calls.case.kernel in USERS and GRADIENTS[0] in calls.got and calls.case.problem.scores <= most
    return calls.subject.attached if tried else None


def _with_two_graphs(calls: Calls, compared: Compared) -> None:
    """Two forward passes, then the first one's backward pass, twice, and the second one's for another dO."""
    attached = _attached_call(calls)
    if attached is None:
        return
    *inputs, d_out = Handed((*calls.inputs, calls.d_out), calls.case.layout).tensors
    first = attached(*inputs)
    others, other_d_out = _other_inputs(calls), calls.d_out.flip(2)
    second = attached(*Handed(others, calls.case.layout).tensors)
    for words in (
        "after another forward pass with other numbers, the backward pass of the first is wrong",
        "a second backward pass of the same graph (retain_graph=True) is wrong, unlike the first",
    ):
        _hold(words, first.gradients(d_out, keep=True), compared)
    got = second.gradients(Handed((*others, other_d_out), calls.case.layout).tensors[3])
    gradients, problem = (got["dQ"], got["dK"], got["dV"]), calls.case.problem
    right = compare_gradients(problem, gradients, others, other_d_out, scale=calls.scale, band=calls.band)
    _hold("with other numbers and another dO the backward pass is wrong", got, right)


def _with_fewer_gradients(calls: Calls, compared: Compared) -> None:
    """Each input in turn requires no gradient, then each alone does: they must be what they were."""
    attached = _attached_call(calls)
    if attached is None:
        return
    named = [*zip(GRADIENTS, NAMES, strict=False)]
    ways = {f"if {tensor} requires no gradient, another one": {*GRADIENTS} - {name} for name, tensor in named}
    ways |= {f"if {tensor} alone requires a gradient, it": {name} for name, tensor in named}
    for words, learning in ways.items():
        *inputs, d_out = Handed((*calls.inputs, calls.d_out), calls.case.layout).tensors
        got = attached(*inputs, learning=[name for name in GRADIENTS if name in learning]).gradients(d_out)
        _hold(f"{words} is wrong", got, compared)


WAYS: dict[str, Callable[[Calls, Compared], None]] = {
    "with other numbers in the same tensors": _with_other_numbers,
    "with another forward pass before its backward pass": _with_two_graphs,
    "with an input that requires no gradient": _with_fewer_gradients,
}
"""Later calls that are tried, by what is different in them."""


def _with_other_configurations(calls: Calls, compared: Compared) -> None:
    """Other configurations of `@triton.autotune`: on a GPU any may be the fastest.

    The notes of the runs say how many were tried.
    """
    settings = calls.subject.seen.configurations
    count = max(map(len, settings.values()), default=1)
    if count == 1:
        return
    most = MOST if calls.case.repeats > 2 else MOST_IN_THE_BATTERY
    start = zlib.crc32(calls.case.words.encode())
    tried = sorted(1 + (start + step) % (count - 1) for step in range(min(most, count - 1)))
    for number in tried:
        named = [f"{kernel}: {each[number % len(each)]}" for kernel, each in settings.items() if each[1:]]
        words = f"with configuration {number + 1} of {count} of @triton.autotune ({'; '.join(named)})"
        calls.subject.controls.configuration = number
        try:
            got = calls.again()
        except Refused as error:
            calls.own_notes.append(f"Not checked {words}: {error}.")
            continue
        except Broken as error:
            raise Wrong.of(f"{words} it failed", error) from error
        finally:
            calls.subject.controls.configuration = 0
        _hold(f"{words} a result is wrong, unlike with the first", got, compared)
    numbers = ", ".join(str(number + 1) for number in [0, *tried])
    calls.own_notes.append(
        f"Configurations of @triton.autotune: {1 + len(tried)} of {count} were run on this case (number "
        f"{numbers})."
    )


def order_finding(
    calls: Calls, repeats: Repeats | None, checks: tuple[TensorCheck, ...]
) -> tuple[Finding, ...] | None:
    """Run once more with the programs of each launch in reverse; what differs from the first is a finding.

    What is added up with atomics, or under a lock, is rounded in the order of the programs: then differences
    within the allowed error are ignored. None if nothing can be told.
    """
    subject = calls.subject
    if subject.seen.programs < 2 or repeats is None or not repeats.equal:
        return None
    subject.controls.in_reverse = True
    try:
        again = calls.again()
    except (Broken, Refused) as error:
        subject.controls.in_reverse = False
        words = f"if the programs of each launch run in reverse, {error}"
        return (Finding("order dependence", words),) if _again(calls) else None
    finally:
        subject.controls.in_reverse = False
    allowed = {check.name: check.tolerance for check in checks} if subject.seen.atomics else {}
    for name, tensor in calls.got.items():
        differs, largest = bits_differ(tensor, again[name]), difference(tensor, again[name])
        if differs.any() and not largest <= allowed.get(name, -1.0):
            forwards = _again(calls).get(name)
            if forwards is None or bits_differ(tensor, forwards).any():
                return None  # it is not the order: each call gives something else
            words = (
                f"{int(differs.sum()):,} of {tensor.numel():,} elements of {name} differ, by up to "
                f"{largest:.1e}, if the programs of each launch run in reverse, first at "
                f"{differs.nonzero()[0].tolist()}. A GPU runs them in any order"
            )
            return (Finding("order dependence", words),)
    return ()


def undefined_findings(
    calls: Calls, repeats: Repeats | None
) -> tuple[tuple[Finding, ...], dict[str, torch.Tensor]]:
    """The loads whose undefined values reach the results, each a finding; and the results with 0 there.

    The kernel runs again without poison, and then with the poison of one line at a time: what differs from
    the run without is that line's. Calls that differ by themselves tell nothing.
    """
    sites = calls.subject.seen.undefined[:MOST_LOADS]
    if not sites or (repeats is not None and not repeats.equal):
        return (), {}
    controls = calls.subject.controls
    findings: list[Finding] = []
    try:
        controls.poisons = False
        without = _again(calls)
        controls.poisons = True
        for site in sites:
            controls.only = site
            got = _again(calls)
            changed = [
                name for name, one in without.items() if name not in got or bits_differ(one, got[name]).any()
            ]
            findings += [finding_of(site, changed)] if changed else []
    finally:
        controls.poisons, controls.only = True, None
    return tuple(findings), without if findings else {}


def _again(calls: Calls) -> dict[str, torch.Tensor]:
    try:
        return calls.again()
    except (Broken, Refused):
        return {}


def memory_notes(calls: Calls, findings: tuple[Finding, ...], order_known: bool) -> list[str]:
    """What was held against what, and what was not."""
    if calls.case.kernel not in USERS:
        return []
    seen = calls.subject.seen
    if not INTERPRETED:
        return [ON_A_GPU]
    notes = []
    if seen.watched and not findings:
        unknown = "whether the order of programs matters cannot be told from these runs"
        notes.append(
            f"Memory, watched in the interpreter over {seen.watched:,} launches: no access leaves its "
            "tensor's memory or reads what nobody wrote, no two programs write different values to one "
            f"place, and {'the order of the programs does not matter' if order_known else unknown}."
        )
    return [*notes, NEEDS_GPU] if seen.watched else notes


def run_check(case: CheckCase, progress: Progress = quiet) -> CheckResult:
    """Check the case on this machine's device.

    Raises InvalidProblem if the case cannot be checked, and what the device raises, such as out of memory.
    """
    began = time.perf_counter()
    label = case.label(user_kernel(case.kernel).name if case.kernel in USERS else "")
    version = user_kernel(case.kernel).version if case.kernel in USERS else ""
    empty = CheckResult(case, label, device_info(BACKEND), utc_now(), 0.0)
    with count_launches(INTERPRETED) as launches:
        try:
            subject = make_subject(case)
        except Refused as error:
            return replace(empty, refused=str(error))
        except Broken as error:
            return replace(empty, broken=str(error), ended=ended_by(error))
        except UserKernelError as error:
            return replace(empty, refused=str(error), trace=error.trace, ended=UNUSABLE)
        made = make_inputs(case.problem, DEVICE), make_d_output(case.problem, DEVICE)
        calls = Calls(case, subject, *made)
        progress(0.05, "running the kernel")
        try:
            calls.first()
        except Refused as error:
            result = replace(empty, refused=str(error), notes=tuple(calls.notes))
        else:
            result = _checked(empty, calls, progress)
    seen = subject.seen
    launched = INTERPRETED and (bool(launches) or any(seen.launches.values()))
    if case.kernel in USERS:
        result = replace(result, launches=seen.launches, written=seen.written)
        if case.requires_kernel and not result.broken:
            result = replace(result, broken=_without_kernel(calls))
        if user_kernel(case.kernel).version != version:
            result = replace(result, stopped="its file, or one that it imports, changed during the check")
    return replace(result, interpreted=launched, seconds=time.perf_counter() - began)


def _without_kernel(calls: Calls) -> str:
    """What is wrong with results that Triton kernels did not compute; "" if nothing is."""
    subject = calls.subject
    if not subject.seen.launches.get("forward"):
        return "no Triton kernel ran, and one is required"
    subject.controls.spoils = subject.controls.filled = True
    try:
        out, _ = calls.forward(calls.inputs)
    except (Refused, Broken):
        return ""  # it noticed
    finally:
        subject.controls.spoils = subject.controls.filled = False
    is_right = calls.references(calls.inputs).compare(out).report.passes
    return "what its Triton kernels store does not reach O" if is_right else ""


def _checked(empty: CheckResult, calls: Calls, progress: Progress) -> CheckResult:
    """All parts of the check after the first run: what it returned before an error is judged."""
    progress(0.3, "comparing with float64")
    compared = _held_against_exact(calls)
    checks, maps = _compare(calls, compared)
    wrong = [check.name for check in checks if not check.passes]
    progress(0.6, "repeating the run")
    repeats = None if calls.failure else calls.repeat()
    if not calls.failure and not wrong:
        calls.failure = later_failure(calls, compared)
    undefined, with_zeros = undefined_findings(calls, repeats) if wrong or calls.failure else ((), {})
    if with_zeros:  # so that they do not hide what else is wrong
        calls.got, calls.failure, calls.subject.controls.poisons = with_zeros, None, False
        compared = _held_against_exact(calls)
        checks, maps = _compare(calls, compared)
        wrong = [check.name for check in checks if not check.passes]
        calls.own_notes.append("Judged with 0 in the lanes of masked loads without `other`.")
        calls.failure = None if wrong else later_failure(calls, compared)
    progress(0.8, "weighing the key tiles")
    weights, row_sums = weigh_keys(calls)
    progress(0.9, "looking for the cause")
    causes = causes_of(Evidence(calls, compared, wrong, row_sums)) if wrong else ()
    in_order = order_finding(calls, repeats, checks)
    findings = calls.subject.seen.findings + (in_order or ()) + undefined
    return replace(
        empty,
        tensors=checks,
        maps=maps + weights,
        repeats=repeats,
        broken=str(calls.failure) if calls.failure else "",
        ended=ended_by(calls.failure),
        trace=calls.failure.trace if calls.failure else "",
        changed=calls.changed,
        findings=findings,
        causes=causes,
        notes=(*calls.notes, *memory_notes(calls, findings, in_order is not None)),
    )


def check_tensor(name: str, got: torch.Tensor, comparison: Comparison) -> TensorCheck:
    """The check of a tensor that was compared with the exact one."""
    report, exact, reference = comparison.report, comparison.exact, comparison.reference
    worst = np.unravel_index(int(comparison.error.argmax()), comparison.error.shape)
    index = tuple(int(i) for i in worst)
    same = (got.double() == exact) | (got.isnan() & exact.isnan())
    return TensorCheck(
        name=name,
        max_error=report.max_error,
        mean_error=report.mean_error,
        naive_max_error=report.naive_max_error,
        naive_mean_error=mean_of(absolute_error(reference, exact)),
        tolerance=report.tolerance,
        worst=index,
        worst_value=float(got[index]),
        exact_value=float(exact[index]),
        wrong_nonfinite=int((~same & ~(got.isfinite() & exact.isfinite())).sum()),
        elements=got.numel(),
        reference=comparison.reference_name,
    )


def error_map(kind: str, error: torch.Tensor, tolerance: float) -> ErrorMap:
    """The map of the worst head of a (batch, heads, rows, columns) error: shares of the tolerance."""
    rows, columns = error.shape[2:]
    steps = -(-rows // MAP_ROWS), -(-columns // MAP_COLUMNS)
    error = error.flatten(0, 1)
    head = int(error.amax(dim=(1, 2)).argmax())
    share = torch.where(error[head] == 0, 0.0, error[head] / tolerance).nan_to_num(nan=float("inf"))
    cells = F.max_pool2d(share.float()[None], steps, ceil_mode=True)[0]
    return ErrorMap(kind, cells.cpu().numpy(), head, *steps, rows, columns)


def _compare(
    calls: Calls, compared: dict[str, Comparison]
) -> tuple[tuple[TensorCheck, ...], tuple[ErrorMap, ...]]:
    """The checks of O, lse and the gradients, and the error maps of all but lse."""
    dtype = calls.case.problem.dtype
    checks, maps = [], []
    for name, comparison in compared.items():
        got = calls.got[name].to(comparison.exact.device)
        check = check_tensor(name, got, comparison)
        checks.append(check)
        if name == "lse":
            continue
        maps.append(error_map(name, comparison.error, check.tolerance))
        if check.reference != dtype:
            calls.own_notes.append(
                f"Standard attention in {dtype} gives NaN or infinity for {name}: the allowed error is "
                f"that of {check.reference}."
            )
    return tuple(checks), tuple(maps)


def _held_against_exact(calls: Calls) -> dict[str, Comparison]:
    """O, lse and the gradients, as far as they were returned, by the rule."""
    problem, got = calls.case.problem, calls.got
    if "O" not in got:
        return {}
    references = calls.references(calls.inputs)
    compared = {"O": references.compare(got["O"])}
    is_exact = problem.inputs == "normal" and compared["O"].report.naive_max_error == 0
    if is_exact and whole_mask(calls.band, DEVICE).sum(dim=-1).max() > 1:
        words = f"attention in {problem.dtype} is not off from float64 by anything on these numbers"
        raise JobFailure(f"{words}: torch does not work here, and nothing can be judged")
    if "lse" in got:
        compared["lse"] = references.compare_lse(got["lse"])
    if "dQ" in got:
        gradients = (got["dQ"], got["dK"], got["dV"])
        compared |= compare_gradients(
            problem, gradients, calls.inputs, calls.d_out, scale=calls.scale, band=calls.band
        )
    return compared


def weigh_keys(calls: Calls) -> tuple[tuple[ErrorMap, ...], torch.Tensor | None]:
    """How much of its attention each row gives to each group of key tiles, against float64; and its sum.

    This is one more run, with values that are 1 in the column of their group of keys and 0 elsewhere: O then
    is the weight of each group. It shows at which keys any kernel goes wrong. Empty if it does not run.
    """
    if "O" not in calls.got:
        return (), None
    problem, (query, key, value) = calls.case.problem, calls.inputs
    probe, group = group_probe(value, problem.block_n)
    try:
        got, _ = calls.forward((query, key, probe))
    except (Refused, Broken):
        return (), None
    compared = calls.references((query, key, probe)).compare(got)
    groups = -(-problem.kv_len // group)
    weights, error = got.double()[..., :groups], compared.error[..., :groups]
    found = error_map("weights", error, compared.report.tolerance)
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
