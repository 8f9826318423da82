"""Runs one check: the kernel, float64 attention, a low-precision reference, and the errors between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from kernels.check.cases import OURS, UPLOADED, USER, CheckCase
from kernels.check.compare import check_tensor, error_map, key_group_probe, worst_heads
from kernels.check.file_rules import Tensor
from kernels.check.result import CheckResult, ErrorMap, KeylessRows, Repeats, TensorCheck, label_of
from kernels.check.subjects import (
    Broken,
    Refused,
    Subject,
    make_subject,
    poisoned_memory,
)
from kernels.check.uploads import Upload
from kernels.check.user_kernel import UserKernelError, user_kernel
from kernels.device.backend import device_info, utc_now
from kernels.device.interpreter import count_launches
from kernels.device.runtime import BACKEND, DEVICE
from kernels.oracle.exact import Inputs, attention_by_rows
from kernels.oracle.report import FACTORS
from kernels.oracle.rule import (
    GRADIENTS,
    Comparison,
    compare,
    compare_gradients,
    compare_lse,
    largest_finite,
)
from kernels.problem import AttentionProblem, tiles
from kernels.problem.inputs import make_d_output, make_inputs

Progress = Callable[[float, str], None]
PLAYER_STEPS = 4096
"""The player draws at most this many steps. Links to longer runs do not name a step."""


@dataclass(frozen=True)
class Tensors:
    """The tensors of a case on the device: Q, K, V and dO, and the results from a file by name."""

    inputs: Inputs
    d_out: torch.Tensor
    results: dict[str, torch.Tensor]


def tensors_of(case: CheckCase, upload: Upload | None) -> Tensors:
    """The tensors of the file, or without a file those of the case's seed. dO is drawn if a file lacks it."""
    if upload is None:
        return Tensors(make_inputs(case.problem, DEVICE), make_d_output(case.problem, DEVICE), {})
    uploaded = {name: _to_torch(tensor) for name, tensor in upload.tensors.items()}
    d_out = uploaded.get("d_output")
    if d_out is None:
        d_out = make_d_output(case.problem, DEVICE)
    names = {"O": "output", "lse": "lse", "dQ": "d_query", "dK": "d_key", "dV": "d_value"}
    results = {name: uploaded[ours] for name, ours in names.items() if ours in uploaded}
    return Tensors(
        (uploaded["query"], uploaded["key"], uploaded["value"]),
        d_out,
        results if case.kernel == UPLOADED else {},
    )


def _to_torch(tensor: Tensor) -> torch.Tensor:
    if tensor.dtype == "bfloat16":
        return torch.from_numpy(tensor.array.view("int16")).view(torch.bfloat16).to(DEVICE)
    return torch.from_numpy(tensor.array.copy()).to(DEVICE)


def run_check(
    case: CheckCase, upload: Upload | None = None, progress: Progress = lambda fraction, words: None
) -> CheckResult:
    """Check the case on this machine's device.

    Raises InvalidProblem if the case cannot be checked, and what the device raises, such as out of memory.
    """
    began = time.perf_counter()
    user_name = user_kernel().name if case.kernel == USER else ""
    empty = CheckResult(case, label_of(case, user_name), device_info(BACKEND), utc_now(), 0.0)
    tensors = tensors_of(case, upload)
    notes = _notes(case)
    with count_launches(BACKEND == "interpreter") as launches:
        try:
            subject = None if case.kernel == UPLOADED else make_subject(case.kernel, case.problem)
            progress(0.05, "running the kernel")
            got = _first_run(case, subject, tensors, notes)
        except (Refused, UserKernelError) as error:
            return replace(empty, refused=str(error), notes=tuple(notes))
        except Broken as error:
            return replace(empty, broken=str(error), notes=tuple(notes))
        progress(0.3, "comparing with float64")
        checks, maps = _compare(case.problem, tensors, got, notes)
        progress(0.6, "repeating the run")
        repeats = _repeat(case, subject, tensors, got) if subject else None
        progress(0.8, "weighing the key tiles")
        weights = _weights(case.problem, subject, tensors) if subject else None
    return replace(
        empty,
        tensors=checks,
        maps=(*maps, weights) if weights else maps,
        keyless=_keyless(case.problem, got),
        repeats=repeats,
        notes=tuple(notes),
        interpreted=bool(launches),
        seconds=time.perf_counter() - began,
    )


def _notes(case: CheckCase) -> list[str]:
    if case.kernel == USER and BACKEND == "interpreter" and case.problem.dtype == "bfloat16":
        return [
            "Triton's interpreter multiplies bfloat16 wrongly unless a kernel widens it first: "
            "check bfloat16 on a GPU."
        ]
    return []


def _first_run(
    case: CheckCase, subject: Subject | None, tensors: Tensors, notes: list[str]
) -> dict[str, torch.Tensor]:
    """O, lse and gradients by name, as far as the kernel returns them.

    New memory is filled with NaN, but not for torch's own kernels: torch would then choose other algorithms.
    """
    if subject is None:
        return tensors.results
    if case.kernel in OURS or case.kernel == USER:
        with poisoned_memory():
            return _run(case, subject, tensors, notes)
    return _run(case, subject, tensors, notes)


def _run(
    case: CheckCase, subject: Subject, tensors: Tensors, notes: list[str] | None = None
) -> dict[str, torch.Tensor]:
    out, lse = subject.forward(*tensors.inputs)
    got = {"O": out} if lse is None else {"O": out, "lse": lse}
    if not case.gradients:
        return got
    if subject.gradients is None:
        if notes is not None:
            notes.append("This kernel is forward only: it has no gradients to check.")
        return got
    try:
        return got | dict(zip(GRADIENTS, subject.gradients(*tensors.inputs, tensors.d_out), strict=True))
    except Refused as error:
        if notes is not None:
            notes.append(f"Gradients were not checked: {error}.")
        return got


def _compare(
    problem: AttentionProblem, tensors: Tensors, got: dict[str, torch.Tensor], notes: list[str]
) -> tuple[tuple[TensorCheck, ...], tuple[ErrorMap, ...]]:
    """The checks of O, lse and the gradients, and the error maps of all but lse."""
    compared = _held_against_exact(problem, tensors, got)
    checks, maps = [], []
    for name, comparison in compared.items():
        check, codes = check_tensor(name, got[name].to(comparison.exact.device), comparison)
        checks.append(check)
        if name == "lse":
            continue
        maps.append(error_map(name, comparison.error, check.tolerance, codes))
        if check.reference != problem.dtype:
            notes.append(
                f"Naive attention in {problem.dtype} gives NaN or infinity for {name}: the allowed error is "
                f"that of {check.reference}."
            )
    return tuple(checks), tuple(maps)


def _held_against_exact(
    problem: AttentionProblem, tensors: Tensors, got: dict[str, torch.Tensor]
) -> dict[str, Comparison]:
    """O, lse and the gradients, as far as they were returned, by the rule."""
    inputs, largest = tensors.inputs, largest_finite(tensors.inputs[2])
    low = getattr(torch, problem.dtype)
    (exact_out, exact_lse), (naive_out, _), (float32_out, float32_lse) = (
        attention_by_rows(*inputs, scale=problem.scale, band=problem.band, dtype=dtype)
        for dtype in (torch.float64, low, torch.float32)
    )
    device, factor = exact_out.device, FACTORS["forward"]
    out = got["O"].to(device)
    compared = {"O": compare(out, exact_out, naive_out, lambda: float32_out, factor, largest)}
    if "lse" in got:
        compared["lse"] = compare_lse(got["lse"].to(device), exact_lse, float32_lse)
    if "dQ" in got:
        gradients = (got["dQ"], got["dK"], got["dV"])
        compared |= compare_gradients(problem, gradients, inputs, tensors.d_out)
    return compared


@dataclass(frozen=True)
class ReferenceOutputs:
    """O of one problem, computed in float64, in the type of the inputs, and in float32."""

    exact: torch.Tensor
    naive: torch.Tensor
    in_float32: torch.Tensor


def reference_outputs(problem: AttentionProblem, inputs: Inputs) -> ReferenceOutputs:
    """The references for an output of the problem on these inputs."""
    dtypes = (torch.float64, inputs[0].dtype, torch.float32)
    return ReferenceOutputs(
        *(
            attention_by_rows(*inputs, scale=problem.scale, band=problem.band, dtype=dtype)[0]
            for dtype in dtypes
        )
    )


def compare_to(references: ReferenceOutputs, out: torch.Tensor, largest_value: float) -> Comparison:
    """An output compared with the exact one by the rule; `largest_value` is the largest |V|."""
    in_float32 = references.in_float32
    factor = FACTORS["forward"]
    return compare(out, references.exact, references.naive, lambda: in_float32, factor, largest_value)


def _keyless(problem: AttentionProblem, got: dict[str, torch.Tensor]) -> KeylessRows | None:
    ranges = (problem.band.visible_keys(row) for row in range(problem.q_len))
    rows = [row for row, (first, end) in enumerate(ranges) if first == end]
    if not rows:
        return None
    per_head = problem.batch * problem.q_heads
    wrong_output = int((got["O"][:, :, rows] != 0).any(dim=-1).sum())
    wrong_lse = int((got["lse"][:, :, rows] != float("-inf")).sum()) if "lse" in got else 0
    return KeylessRows(len(rows) * per_head, wrong_output, wrong_lse)


def _repeat(case: CheckCase, subject: Subject, tensors: Tensors, got: dict[str, torch.Tensor]) -> Repeats:
    """Bitwise comparison of `case.repeats` runs.

    The run with poisoned memory counts as the first, unless poisoning may have changed torch's algorithms.
    """
    first = got if case.kernel != USER or BACKEND == "interpreter" else _run(case, subject, tensors)
    largest = 0.0
    unequal = {
        name: torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
        for name, tensor in first.items()
    }
    for _ in range(case.repeats - 1):
        for name, tensor in _run(case, subject, tensors).items():
            different = _bits(tensor) != _bits(first[name])
            unequal[name] |= different
            if different.any():
                difference = (tensor.double() - first[name].double())[different].abs()
                largest = max(largest, float(difference.nan_to_num(nan=float("inf")).max()))
    differing = {name: int(elements.sum()) for name, elements in unequal.items()}
    return Repeats(case.repeats, differing, largest)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.int16 if tensor.element_size() == 2 else torch.int32)


def _weights(problem: AttentionProblem, subject: Subject, tensors: Tensors) -> ErrorMap | None:
    """How much of its attention each row gives to each group of key tiles, against float64.

    This is one more run, with values that are 1 in the column of their group of keys and 0 elsewhere: O then
    is the weight of each group. It shows at which keys any kernel goes wrong. None if the kernel refuses.
    """
    query, key, value = tensors.inputs
    probe, group = key_group_probe(value, problem.block_n)
    try:
        got, _ = subject.forward(query, key, probe)
    except (Refused, Broken):
        return None
    comparison = compare_to(reference_outputs(problem, (query, key, probe)), got, largest_value=1.0)
    error, groups = comparison.error, -(-problem.kv_len // group)
    by_column = error_map("weights", error[..., :groups], comparison.report.tolerance, None)
    starts = program_starts(problem, worst_heads(error))
    return replace(by_column, column_step=group, columns=problem.kv_len, first_step=starts)


def program_starts(problem: AttentionProblem, heads: torch.Tensor) -> np.ndarray | None:
    """int32 (heads, query tiles): the step of FlashAttention-2's trace at which each tile's program starts.

    A trace orders the programs by head and query tile; a program that visits no tile has one step. None if
    the trace has more than PLAYER_STEPS steps.
    """
    visited = [tiles.visited_tiles(problem, q_tile) for q_tile in range(problem.q_tiles)]
    steps = np.array([max(tile.end - tile.first, 1) for tile in visited])
    if steps.sum() * problem.batch * problem.q_heads > PLAYER_STEPS:
        return None
    starts = np.cumsum(steps) - steps
    return (heads.cpu().numpy()[:, None] * steps.sum() + starts).astype(np.int32)
