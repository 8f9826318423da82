"""How the error of O moves with the tile sizes, and with the scale of the query up to where its type overflows."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from kernels.check.cases import KERNELS, UPLOADED, CheckCase, estimated_seconds
from kernels.check.compare import check_tensor
from kernels.check.result import Sensitivity, SensitivityPoint, TensorCheck
from kernels.check.run import Progress, tensors_of
from kernels.check.subjects import Broken, Refused, make_subject
from kernels.check.uploads import Upload
from kernels.check.user_kernel import UserKernelError
from kernels.device.runtime import BACKEND
from kernels.oracle.exact import attention_by_rows
from kernels.oracle.report import FACTORS
from kernels.oracle.rule import compare, largest_finite
from kernels.problem import AttentionProblem, InvalidProblem

BLOCKS = ((16, 16), (32, 32), (64, 32), (32, 64), (64, 64), (128, 32), (128, 64), (64, 128), (128, 128))
POINTS = 8
"""Factors on the query between 1 and the overflow."""
POINT_LIMIT_S = 4.0


def run_sensitivity(
    case: CheckCase, upload: Upload | None = None, progress: Progress = lambda fraction, words: None
) -> Sensitivity:
    """Vary tiles and scale. A result from a file has nothing to vary. Raises InvalidProblem for a case that cannot be run."""
    if case.kernel == UPLOADED:
        raise InvalidProblem(
            "kernel",
            case.kernel,
            "a result from a file cannot be run again",
            "Choose a kernel to run on its Q, K and V.",
        )
    inputs = tensors_of(case, upload).inputs
    notes: list[str] = []
    try:
        blocks = _blocks(case, inputs, progress, notes)
        scales = _scales(case, inputs, progress)
    except (Refused, Broken, UserKernelError) as error:
        return Sensitivity((), (), (str(error),))
    return Sensitivity(blocks, scales, tuple(notes))


# --- tiles -----------------------------------------------------------------------------------------------------------


def _blocks(
    case: CheckCase, inputs: tuple, progress: Progress, notes: list[str]
) -> tuple[SensitivityPoint, ...]:
    if not KERNELS[case.kernel].tiles:
        notes.append("This kernel chooses its tiles itself.")
        return ()
    problem = case.problem
    wanted = [problem.with_(block_m=block_m, block_n=block_n) for block_m, block_n in BLOCKS]
    quick = [_is_quick(replace(case, problem=tiled)) for tiled in wanted]
    if not all(quick):
        notes.append(
            f"Tiles left out, since the interpreter is slow on small ones: {_names(wanted, quick, False)}."
        )
    wanted = [tiled for tiled, keep in zip(wanted, quick, strict=True) if keep]
    references = _references(problem, inputs, problem.scale)
    base, _ = make_subject(case.kernel, problem).forward(*inputs)
    points = []
    for place, tiled in enumerate(wanted):
        label = f"{tiled.block_m} x {tiled.block_n}"
        progress(0.5 * place / len(wanted), f"tiles of {label}")
        try:
            out, _ = make_subject(case.kernel, tiled).forward(*inputs)
        except (Refused, Broken) as error:
            points.append(SensitivityPoint(label, math.inf, 0.0, 0.0, 0, 0, refused=str(error)))
            continue
        check = _judge(out, references, inputs[2])
        difference = float((out.double() - base.double()).abs().nan_to_num(nan=0.0, posinf=math.inf).max())
        points.append(_point(label, check, 0, difference=difference))
    return tuple(points)


def _is_quick(case: CheckCase) -> bool:
    return (
        BACKEND == "cuda"
        or estimated_seconds(replace(case, gradients=False, repeats=1), BACKEND) <= POINT_LIMIT_S
    )


def _names(wanted: list[AttentionProblem], quick: list[bool], which: bool) -> str:
    return ", ".join(
        f"{tiled.block_m}x{tiled.block_n}" for tiled, keep in zip(wanted, quick, strict=True) if keep is which
    )


# --- scale -----------------------------------------------------------------------------------------------------------


def factors(largest: float, dtype: torch.dtype) -> list[int]:
    """Powers of two on the query: from 0 to the last that its type holds, evenly, and one beyond that overflows."""
    if not 0 < largest < math.inf:
        return [0]
    last = max(math.floor(math.log2(torch.finfo(dtype).max / largest)), 0)
    return sorted({round(last * place / (POINTS - 1)) for place in range(POINTS)} | {last + 1})


def _scales(case: CheckCase, inputs: tuple, progress: Progress) -> tuple[SensitivityPoint, ...]:
    query, key, value = inputs
    subject = make_subject(case.kernel, case.problem)
    finite = query[query.isfinite()]
    powers = factors(float(finite.abs().max()) if finite.numel() else 0.0, query.dtype)
    points = []
    for place, power in enumerate(powers):
        progress(0.5 + 0.5 * place / len(powers), f"query times 2^{power}")
        scaled = (query.double() * 2.0**power).to(query.dtype)
        out, _ = subject.forward(scaled, key, value)
        references = _references(case.problem, (scaled, key, value), case.problem.scale)
        naive_wrong = int((~references[1].isfinite() & references[0].isfinite()).sum())
        largest = _largest_score(scaled, key, case.problem.scale)
        points.append(
            _point(f"2^{power}", _judge(out, references, value), naive_wrong, largest_score=largest)
        )
    return tuple(points)


def _largest_score(query: torch.Tensor, key: torch.Tensor, scale: float) -> float:
    group = query.shape[1] // key.shape[1]
    largest = 0.0
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for rows in query[b, h].double().split(4096):
                largest = max(
                    largest,
                    float(
                        (rows @ key[b, h // group].double().T * scale).abs().nan_to_num(nan=math.inf).max()
                    ),
                )
    return largest


# --- shared ----------------------------------------------------------------------------------------------------------


def _references(problem: AttentionProblem, inputs: tuple, scale: float) -> tuple[torch.Tensor, ...]:
    """O in float64, in the type of the inputs, and in float32."""
    dtypes = (torch.float64, inputs[0].dtype, torch.float32)
    return tuple(
        attention_by_rows(*inputs, scale=scale, band=problem.band, dtype=dtype)[0] for dtype in dtypes
    )


def _judge(out: torch.Tensor, references: tuple[torch.Tensor, ...], value: torch.Tensor) -> TensorCheck:
    exact, naive, in_float32 = references
    largest = largest_finite(value)
    return check_tensor(
        "O", out, compare(out, exact, naive, lambda: in_float32, FACTORS["forward"], largest)
    )[0]


def _point(label: str, check: TensorCheck, naive_wrong: int, **more: float) -> SensitivityPoint:
    return SensitivityPoint(
        label,
        check.max_error,
        check.tolerance,
        check.naive_max_error,
        check.wrong_nonfinite,
        naive_wrong,
        **more,
    )
