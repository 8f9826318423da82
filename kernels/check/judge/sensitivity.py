"""How the error of O changes with tile sizes, and with the scale of the query until its type overflows."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from kernels.check.case.cases import KERNELS, CheckCase, estimated_seconds
from kernels.check.files.uploads import Upload
from kernels.check.judge.calls import Calls, Tensors, tensors_of
from kernels.check.judge.compare import check_tensor
from kernels.check.judge.memory import faults, watched_again
from kernels.check.judge.run import Progress
from kernels.check.result import Sensitivity, SensitivityPoint, TensorCheck
from kernels.check.subject.subjects import make_subject
from kernels.check.subject.user_errors import Broken, Refused
from kernels.check.subject.user_kernel import UserKernelError
from kernels.device.runtime import BACKEND
from kernels.oracle.naive import group_size
from kernels.oracle.rule import OutputReferences, largest_finite

BLOCKS = ((16, 16), (32, 32), (64, 32), (32, 64), (64, 64), (128, 32), (128, 64), (64, 128), (128, 128))
POINTS = 8
"""Factors on the query from 1 to the largest before the overflow."""
POINT_LIMIT_S = 4.0
"""Tiles that would take the interpreter longer than this, in seconds, are left out, by estimate."""


def run_sensitivity(
    case: CheckCase, upload: Upload | None = None, progress: Progress = lambda fraction, words: None
) -> Sensitivity:
    """Run the case with other tiles, and with other scales of the query.

    Raises InvalidProblem if the case cannot be run, as for a result from a file.
    """
    tensors = tensors_of(case, upload)
    notes: list[str] = []
    with watched_again(case.kernel) as watch:
        try:
            blocks = _blocks(case, tensors, progress, notes)
            scales = _scales(case, tensors, progress)
        except (Refused, Broken, UserKernelError) as error:
            return Sensitivity((), (), (str(error), *faults(watch)))
    return Sensitivity(blocks, scales, (*notes, *faults(watch)))


def _blocks(
    case: CheckCase, tensors: Tensors, progress: Progress, notes: list[str]
) -> tuple[SensitivityPoint, ...]:
    if not KERNELS[case.kernel].tiles:
        notes.append("This kernel chooses its tiles itself.")
        return ()
    problem = case.problem
    variants = [problem.with_(block_m=block_m, block_n=block_n) for block_m, block_n in BLOCKS]
    quick = [variant for variant in variants if _is_quick(replace(case, problem=variant))]
    if left_out := [f"{tiled.block_m}x{tiled.block_n}" for tiled in variants if tiled not in quick]:
        notes.append(f"Tiles left out, because the interpreter is slow on small ones: {', '.join(left_out)}.")
    subject, inputs = make_subject(case), tensors.inputs
    references = OutputReferences.of(inputs, case.score_scale, subject.band)
    base, _ = Calls(case, subject, tensors).forward(inputs)
    points = []
    for index, tiled in enumerate(quick):
        label = f"{tiled.block_m} x {tiled.block_n}"
        progress(0.5 * index / len(quick), f"tiles of {label}")
        try:
            with_tiles = replace(case, problem=tiled)
            out, _ = Calls(with_tiles, make_subject(with_tiles), tensors).forward(inputs)
        except (Refused, Broken) as error:
            points.append(SensitivityPoint(label, math.inf, 0.0, 0.0, 0, 0, refused=str(error)))
            continue
        check, _ = check_tensor("O", out, references.compare(out))
        difference = float((out.double() - base.double()).abs().nan_to_num(nan=0.0, posinf=math.inf).max())
        points.append(_point(label, check, 0, difference=difference))
    return tuple(points)


def _is_quick(case: CheckCase) -> bool:
    forward_once = replace(case, gradients=False, repeats=1)
    return BACKEND == "cuda" or estimated_seconds(forward_once, BACKEND) <= POINT_LIMIT_S


def factors(largest: float, dtype: torch.dtype) -> list[int]:
    """The exponents n of the factors 2^n on a query whose largest |value| is `largest`.

    They are spread evenly from 0 to the largest that `dtype` holds. One more overflows.
    """
    if not 0 < largest < math.inf:
        return [0]
    last = max(math.floor(math.log2(torch.finfo(dtype).max / largest)), 0)
    return sorted({round(last * point / (POINTS - 1)) for point in range(POINTS)} | {last + 1})


def _scales(case: CheckCase, tensors: Tensors, progress: Progress) -> tuple[SensitivityPoint, ...]:
    query, key, value = tensors.inputs
    subject = make_subject(case)
    powers = factors(largest_finite(query), query.dtype)
    points = []
    for index, power in enumerate(powers):
        progress(0.5 + 0.5 * index / len(powers), f"query times 2^{power}")
        scaled = (query.double() * 2.0**power).to(query.dtype)
        out, _ = Calls(case, subject, tensors).forward((scaled, key, value))
        references = OutputReferences.of((scaled, key, value), case.score_scale, subject.band)
        naive_wrong = int((~references.naive.isfinite() & references.exact.isfinite()).sum())
        largest = _largest_score(scaled, key, case.score_scale)
        check, _ = check_tensor("O", out, references.compare(out))
        points.append(_point(f"2^{power}", check, naive_wrong, largest_score=largest))
    return tuple(points)


def _largest_score(query: torch.Tensor, key: torch.Tensor, scale: float) -> float:
    group = group_size(query, key)
    largest = 0.0
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for rows in query[b, h].double().split(4096):
                scores = rows @ key[b, h // group].double().T * scale
                largest = max(largest, float(scores.abs().nan_to_num(nan=math.inf).max()))
    return largest


def _point(
    label: str,
    check: TensorCheck,
    naive_wrong: int,
    *,
    largest_score: float = 0.0,
    difference: float = 0.0,
) -> SensitivityPoint:
    return SensitivityPoint(
        label,
        max_error=check.max_error,
        tolerance=check.tolerance,
        naive_max_error=check.naive_max_error,
        wrong_nonfinite=check.wrong_nonfinite,
        naive_wrong_nonfinite=naive_wrong,
        largest_score=largest_score,
        difference=difference,
    )
