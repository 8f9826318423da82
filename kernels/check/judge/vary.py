"""Runs a case again in other ways: how does the error of O move, and what changes the bits of a row?

Sensitivity: other tile sizes, and other scales of the query until its type overflows. Determinism: TITLES of
`kernels.check.result`. A kernel whose row depends on none of them is deterministic and batch invariant.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from kernels.algorithms import ALGORITHMS
from kernels.check.case.cases import KERNELS, UPLOADED, CheckCase, estimated_seconds
from kernels.check.files.uploads import Upload
from kernels.check.judge.calls import Calls, Tensors, quiet, tensors_of
from kernels.check.judge.compare import check_tensor, difference
from kernels.check.result import Determinism, Sensitivity, SensitivityPoint, Variation
from kernels.check.subject.subjects import Subject, make_subject
from kernels.check.subject.user_errors import Broken, Refused, UserKernelError
from kernels.device.runtime import BACKEND, INTERPRETED
from kernels.oracle.naive import one_key_head_per_query_head
from kernels.oracle.rule import OutputReferences, largest_finite
from kernels.problem import InvalidProblem
from kernels.worker.requests import Progress

BLOCKS = ((16, 16), (32, 32), (64, 32), (32, 64), (64, 64), (128, 32), (128, 64), (64, 128), (128, 128))
POINTS = 8
"""Factors on the query from 1 to the largest before the overflow."""
POINT_LIMIT_S = 4.0
"""Tiles that would take the interpreter longer than this, in seconds, are left out, by estimate."""
ENDS = (Refused, Broken, UserKernelError)
"""What a run may raise in the place of a result."""

Results = dict[str, torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]
LEAST_RUNS = 3
BATCHES = (2, 4)
SPLITS = (1, 2, 3, 4, 8)
BY_ROW = ("O", "lse", "dQ")
"""Tensors with a row per query: those of keys sum over the queries, whose order may change their rounding."""


def run_sensitivity(case: CheckCase, upload: Upload | None = None, progress: Progress = quiet) -> Sensitivity:
    """Run the case with other tiles, and with other scales of the query.

    Raises InvalidProblem if the case cannot be run, as for a result from a file.
    """
    tensors = tensors_of(case, upload)
    notes: list[str] = []
    try:
        subject = _subject_of(case)
        blocks = _blocks(case, tensors, progress, notes)
        scales = _scales(case, subject, tensors, progress)
    except ENDS as error:
        return Sensitivity((), (), (str(error),))
    return Sensitivity(blocks, scales, (*notes, *_faults(subject)))


def _blocks(
    case: CheckCase, tensors: Tensors, progress: Progress, notes: list[str]
) -> tuple[SensitivityPoint, ...]:
    if not KERNELS[case.kernel].tiles:
        notes.append("This kernel chooses its tiles itself.")
        return ()
    cases = {
        f"{block_m} x {block_n}": replace(case, problem=case.problem.with_(block_m=block_m, block_n=block_n))
        for block_m, block_n in BLOCKS
    }
    quick = {
        label: tiled
        for label, tiled in cases.items()
        if BACKEND == "cuda"
        or estimated_seconds(replace(tiled, gradients=False, repeats=1), BACKEND) <= POINT_LIMIT_S
    }
    if left_out := [label for label in cases if label not in quick]:
        notes.append(f"Tiles left out, because the interpreter is slow on small ones: {', '.join(left_out)}.")
    subject, inputs = make_subject(case), tensors.inputs
    references = OutputReferences.of(inputs, case.score_scale, subject.band)
    base, _ = Calls(case, subject, tensors).forward(inputs)
    points = []
    for index, (label, tiled) in enumerate(quick.items()):
        progress(0.5 * index / len(quick), f"tiles of {label}")
        try:
            out, _ = Calls(tiled, make_subject(tiled), tensors).forward(inputs)
        except (Refused, Broken) as error:
            points.append(SensitivityPoint(label, math.inf, 0.0, 0.0, 0, 0, refused=str(error)))
            continue
        difference = float((out.double() - base.double()).abs().nan_to_num(nan=0.0, posinf=math.inf).max())
        points.append(replace(_point(label, out, references), difference=difference))
    return tuple(points)


def factors(largest: float, dtype: torch.dtype) -> list[int]:
    """The exponents n of the factors 2^n on a query whose largest |value| is `largest`.

    They are spread evenly from 0 to the largest that `dtype` holds. One more overflows.
    """
    if not 0 < largest < math.inf:
        return [0]
    last = max(math.floor(math.log2(torch.finfo(dtype).max / largest)), 0)
    return sorted({round(last * point / (POINTS - 1)) for point in range(POINTS)} | {last + 1})


def _scales(
    case: CheckCase, subject: Subject, tensors: Tensors, progress: Progress
) -> tuple[SensitivityPoint, ...]:
    query, key, value = tensors.inputs
    powers = factors(largest_finite(query), query.dtype)
    points = []
    for index, power in enumerate(powers):
        progress(0.5 + 0.5 * index / len(powers), f"query times 2^{power}")
        scaled = (query.double() * 2.0**power).to(query.dtype)
        out, _ = Calls(case, subject, tensors).forward((scaled, key, value))
        references = OutputReferences.of((scaled, key, value), case.score_scale, subject.band)
        wrong = int((~references.naive.isfinite() & references.exact.isfinite()).sum())
        largest = _largest_score(scaled, key, case.score_scale)
        point = _point(f"2^{power}", out, references)
        points.append(replace(point, naive_wrong_nonfinite=wrong, largest_score=largest))
    return tuple(points)


def _largest_score(query: torch.Tensor, key: torch.Tensor, scale: float) -> float:
    key, _ = one_key_head_per_query_head(query, key, key)
    largest = 0.0
    for of_head, keys in zip(query.flatten(0, 1), key.flatten(0, 1), strict=True):
        for rows in of_head.double().split(4096):
            scores = rows @ keys.double().T * scale
            largest = max(largest, float(scores.abs().nan_to_num(nan=math.inf).max()))
    return largest


def _point(label: str, out: torch.Tensor, references: OutputReferences) -> SensitivityPoint:
    check, _ = check_tensor("O", out, references.compare(out))
    return SensitivityPoint(
        label, check.max_error, check.tolerance, check.naive_max_error, check.wrong_nonfinite, 0
    )


@dataclass(frozen=True)
class _Way:
    """One variation: case and tensors to run, how its results are read back, and what they should be."""

    kind: str
    label: str
    case: CheckCase
    tensors: Tensors
    base: Results
    read: Change = lambda tensor: tensor


def run_determinism(case: CheckCase, upload: Upload | None = None, progress: Progress = quiet) -> Determinism:
    """Run the variations of a case. Raises InvalidProblem for a result from a file, which nothing can run."""
    tensors = tensors_of(case, upload)
    faults: dict[str, None] = {}
    try:
        base = _results(case, tensors, faults)
    except ENDS as error:
        return Determinism((), (str(error),))
    numbers = range(2, max(LEAST_RUNS, case.repeats) + 1)
    ways = [_Way("runs", f"run {number}", case, tensors, base) for number in numbers]
    ways += _batches(case, tensors, faults)
    ways += [*_places(case, tensors, base), *_splits(case, tensors, base)]
    found = []
    for number, way in enumerate(ways):
        progress(number / len(ways), way.label)
        found.append(_compared(way, faults))
    return Determinism(tuple(found), (*_notes(case, base), *faults))


def _subject_of(case: CheckCase) -> Subject:
    """Raises InvalidProblem for a result from a file, which nothing can run."""
    if case.kernel == UPLOADED:
        remedy = "Choose a kernel to run on its Q, K and V."
        raise InvalidProblem("kernel", case.kernel, "a result from a file cannot be run again", remedy)
    return make_subject(case)


def _results(case: CheckCase, tensors: Tensors, faults: dict[str, None]) -> Results:
    """O, lse and gradients of one run. The faults of memory that it had are added to the others."""
    subject = _subject_of(case)
    try:
        return Calls(case, subject, tensors).again()
    finally:
        faults |= dict.fromkeys(_faults(subject))


def _faults(subject: Subject) -> list[str]:
    return [f"Found while these ran: {finding.sentence}." for finding in subject.seen.findings]


def _compared(way: _Way, faults: dict[str, None]) -> Variation:
    try:
        got = _results(way.case, way.tensors, faults)
    except ENDS as error:
        return Variation(way.kind, way.label, tuple(way.base), refused=str(error))
    names = tuple(name for name in way.base if name in got)
    differences = (difference(name, way.base[name], way.read(got[name])) for name in names)
    return Variation(way.kind, way.label, names, tuple(filter(None, differences)))


def _batches(case: CheckCase, tensors: Tensors, faults: dict[str, None]) -> Iterator[_Way]:
    """The first sequence alone, and as the last one of larger batches of other sequences."""
    if case.problem.pattern and case.problem.pattern.by_head:
        return  # a mask that asks for the batch is another one in each
    alone = replace(case, problem=case.problem.with_(batch=1))
    first = _changed(tensors, lambda tensor: tensor[:1])
    try:
        base = _results(alone, first, faults)
    except ENDS:
        return
    for batch in BATCHES:
        larger = replace(case, problem=case.problem.with_(batch=batch))
        among = _changed(first, partial(_among_others, batch))
        label = f"last of a batch of {batch}, against alone"
        yield _Way("batch", label, larger, among, base, lambda tensor: tensor[-1:])


def _among_others(batch: int, tensor: torch.Tensor) -> torch.Tensor:
    """The sequence behind others, which hold its numbers in another order."""
    others = [tensor.roll(shift, dims=2).flip(3) for shift in range(1, batch)]
    return torch.cat([*others, tensor])


def _places(case: CheckCase, tensors: Tensors, base: Results) -> Iterator[_Way]:
    """The same rows at other places: in other heads, and with a full mask in other tiles and alone."""
    problem = case.problem
    by_row = {name: base[name] for name in BY_ROW if name in base}
    differs = problem.pattern is not None and problem.pattern.differs_by_head
    if problem.q_heads > 1 and not differs:
        turned = _changed(tensors, lambda tensor: tensor.flip(1))
        yield _Way("place", "heads in reverse", case, turned, base, lambda tensor: tensor.flip(1))
    if problem.mask != "full" or problem.alibi:
        return
    for shift in sorted({1, problem.block_m // 2 + 1}):
        if shift < problem.q_len:
            moved = _changed(tensors, partial(torch.roll, shifts=shift, dims=2), keys=False)
            back = partial(torch.roll, shifts=-shift, dims=2)
            yield _Way("place", f"rows {shift} further on", case, moved, by_row, back)
    if problem.q_len > 1:
        row = problem.q_len // 2
        pick: Change = lambda tensor: tensor[:, :, row : row + 1]  # noqa: E731
        one, picked = replace(case, problem=problem.with_(q_len=1)), _changed(tensors, pick, keys=False)
        of_row = {name: pick(tensor) for name, tensor in by_row.items()}
        yield _Way("place", f"row {row} alone", one, picked, of_row)


def _splits(case: CheckCase, tensors: Tensors, base: Results) -> Iterator[_Way]:
    entry, problem = ALGORITHMS.get(case.kernel), case.problem
    if entry is None or not any(kernel.splits_keys for kernel in entry.kernels):
        return
    for parts in SPLITS:
        if parts <= problem.kv_tiles:
            other = replace(case, problem=problem.with_(kv_splits=parts))
            label = f"{parts} part{'s' if parts > 1 else ''}, against {problem.kv_splits or 'the default'}"
            yield _Way("splits", label, other, tensors, base)


def _changed(tensors: Tensors, change: Change, *, keys: bool = True) -> Tensors:
    """Other Q and dO, and with `keys` other K and V too."""
    query, key, value = tensors.inputs
    if keys:
        key, value = change(key).contiguous(), change(value).contiguous()
    return Tensors((change(query).contiguous(), key, value), change(tensors.d_out).contiguous(), {})


def _notes(case: CheckCase, base: Results) -> Iterator[str]:
    if INTERPRETED:
        yield (
            "The interpreter runs one program after the other. What parallel programs and atomics change is "
            "seen on a GPU only."
        )
    if case.problem.mask != "full":
        yield "Rows were not moved within the query: under this mask each place sees other keys."
    elif "dK" in base:
        yield "dK and dV are not compared after rows have moved: they sum over the rows, in their order."
