"""Run one check: the kernel, the float64 results, a low-precision reference, and what lies between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from kernels.check.cases import OURS, UPLOADED, USER, CheckCase
from kernels.check.compare import check_lse, check_tensor, error_map, key_group_probe, worst_heads
from kernels.check.file_rules import Tensor
from kernels.check.result import CheckResult, ErrorMap, KeylessRows, Repeats, TensorCheck, label_of
from kernels.check.subjects import (
    Broken,
    Refused,
    Subject,
    count_interpreted_launches,
    make_subject,
    poisoned_memory,
)
from kernels.check.uploads import Upload
from kernels.check.user_kernel import UserKernelError, user_kernel
from kernels.device.backend import device_info, utc_now
from kernels.oracle.reference import attention_by_rows, gradients_by_heads
from kernels.primitives.recorder import DEVICE
from kernels.primitives.softmax import BACKEND
from kernels.problem import AttentionProblem, tiles
from kernels.problem.inputs import make_d_output, make_inputs

Progress = Callable[[float, str], None]
GRADIENTS = ("dQ", "dK", "dV")
PLAYER_STEPS = 4096
"""Runs with more steps than the player draws are opened without a step."""


@dataclass(frozen=True)
class Tensors:
    """What a case is about: inputs on the device, dO, and results that came in a file."""

    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    d_out: torch.Tensor
    results: dict[str, torch.Tensor]


def tensors_of(case: CheckCase, upload: Upload | None) -> Tensors:
    """The tensors of the case: drawn from its seed, or those of the file; dO is drawn where the file has none."""
    if upload is None:
        return Tensors(make_inputs(case.problem, DEVICE), make_d_output(case.problem, DEVICE), {})
    found = {name: _to_torch(tensor) for name, tensor in upload.tensors.items()}
    names = {"O": "output", "lse": "lse", "dQ": "d_query", "dK": "d_key", "dV": "d_value"}
    results = {name: found[ours] for name, ours in names.items() if ours in found}
    d_out = found.get("d_output")
    return Tensors(
        (found["query"], found["key"], found["value"]), make_d_output(case.problem, DEVICE) if d_out is None else d_out,
        results if case.kernel == UPLOADED else {},
    )  # fmt: skip


def _to_torch(tensor: Tensor) -> torch.Tensor:
    if tensor.dtype == "bfloat16":
        return torch.from_numpy(tensor.array.view("int16")).view(torch.bfloat16).to(DEVICE)
    return torch.from_numpy(tensor.array.copy()).to(DEVICE)


def run_check(
    case: CheckCase, upload: Upload | None = None, progress: Progress = lambda fraction, words: None
) -> CheckResult:
    """Check the case on the device at hand. Raises InvalidProblem for one that cannot be, and what the device raises (out of memory, say)."""
    began = time.perf_counter()
    user_name = user_kernel().name if case.kernel == USER else ""
    empty = CheckResult(case, label_of(case, user_name), device_info(BACKEND), utc_now(), 0.0)
    tensors = tensors_of(case, upload)
    notes = _notes(case)
    with count_interpreted_launches() as launches:
        try:
            subject = None if case.kernel == UPLOADED else make_subject(case.kernel, case.problem)
            progress(0.05, "running the kernel")
            got = _first_run(case, subject, tensors, notes)
        except (Refused, UserKernelError) as error:
            return replace(empty, refused=str(error), notes=tuple(notes))
        except Broken as error:
            return replace(empty, broken=str(error), notes=tuple(notes))
        progress(0.3, "comparing with float64")
        found, maps, keyless = _compare(case.problem, tensors, got, notes)
        progress(0.6, "repeating the run")
        repeats = _repeat(case, subject, tensors, got) if subject else None
        progress(0.8, "weighing the key tiles")
        weights = _weights(case.problem, subject, tensors) if subject else None
    return replace(
        empty, tensors=found, maps=(*maps, *([weights] if weights else [])), keyless=keyless, repeats=repeats, notes=tuple(notes),
        interpreted=bool(launches), seconds=time.perf_counter() - began,
    )  # fmt: skip


def _notes(case: CheckCase) -> list[str]:
    if case.kernel == USER and BACKEND == "interpreter" and case.problem.dtype == "bfloat16":
        return [
            "Triton's interpreter multiplies bfloat16 wrongly unless a kernel widens it first: check bfloat16 on a GPU."
        ]
    return []


def _first_run(
    case: CheckCase, subject: Subject | None, tensors: Tensors, notes: list[str]
) -> dict[str, torch.Tensor]:
    """O, lse and gradients by name, those that there are. Memory starts as NaN, but under torch's own kernels, which that would change."""
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
            notes.append("This kernel is forward only: no gradients to check.")
        return got
    try:
        return got | dict(zip(GRADIENTS, subject.gradients(*tensors.inputs, tensors.d_out), strict=True))
    except Refused as error:
        if notes is not None:
            notes.append(f"Gradients were not checked: {error}.")
        return got


def _compare(
    problem: AttentionProblem, tensors: Tensors, got: dict[str, torch.Tensor], notes: list[str]
) -> tuple[tuple[TensorCheck, ...], list[ErrorMap], KeylessRows | None]:
    left, right = tiles.band(problem)
    mask = {"scale": problem.scale, "left": left, "right": right}
    low = getattr(torch, problem.dtype)
    exact_out, exact_lse = attention_by_rows(*tensors.inputs, **mask, dtype=torch.float64)
    naive_out, _ = attention_by_rows(*tensors.inputs, **mask, dtype=low)
    careful = attention_by_rows(*tensors.inputs, **mask, dtype=torch.float32)
    pairs = {"O": (exact_out, naive_out, careful[0])}
    if "dQ" in got:
        every = [
            gradients_by_heads(*tensors.inputs, tensors.d_out, **mask, dtype=dtype)
            for dtype in (torch.float64, low, torch.float32)
        ]
        pairs |= dict(zip(GRADIENTS, zip(*every, strict=True), strict=True))
    checks, maps = [], []
    for name, (exact, naive, in_float32) in pairs.items():
        factor = 2.0 if name == "O" else 3.0
        check, error, codes = check_tensor(
            name, got[name].to(exact.device), exact, naive, in_float32, factor, _largest(tensors.inputs[2])
        )
        checks.append(check)
        maps.append(error_map(name, error, check.tolerance, codes))
        if check.reference != problem.dtype:
            notes.append(
                f"Naive attention in {problem.dtype} gives NaN or infinity for {name}: the rule's allowance is that of {check.reference}."
            )
    if "lse" in got:
        checks.insert(1, check_lse(got["lse"].to(exact_lse.device), exact_lse, careful[1]))
    return tuple(checks), maps, _keyless(problem, got)


def _largest(tensor: torch.Tensor) -> float:
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _keyless(problem: AttentionProblem, got: dict[str, torch.Tensor]) -> KeylessRows | None:
    rows = [
        row
        for row in range(problem.q_len)
        if tiles.visible_keys(problem, row)[0] == tiles.visible_keys(problem, row)[1]
    ]
    if not rows:
        return None
    per_head = problem.batch * problem.q_heads
    wrong_output = int((got["O"][:, :, rows] != 0).any(dim=-1).sum())
    wrong_lse = int((got["lse"][:, :, rows] != float("-inf")).sum()) if "lse" in got else 0
    return KeylessRows(len(rows) * per_head, wrong_output, wrong_lse)


def _repeat(case: CheckCase, subject: Subject, tensors: Tensors, got: dict[str, torch.Tensor]) -> Repeats:
    """Bitwise comparison of `case.repeats` runs. The first run counts where its poisoned memory cannot have changed how torch works."""
    first = got if case.kernel != USER or BACKEND == "interpreter" else _run(case, subject, tensors)
    differing, largest = dict.fromkeys(first, 0), 0.0
    unequal = {
        name: torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
        for name, tensor in first.items()
    }
    for _ in range(case.repeats - 1):
        for name, tensor in _run(case, subject, tensors).items():
            different = _bits(tensor) != _bits(first[name])
            unequal[name] |= different
            if different.any():
                largest = max(
                    largest,
                    float(
                        (tensor.double() - first[name].double())[different]
                        .abs()
                        .nan_to_num(nan=float("inf"))
                        .max()
                    ),
                )
    differing |= {name: int(where.sum()) for name, where in unequal.items()}
    return Repeats(case.repeats, differing, largest)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.int16 if tensor.element_size() == 2 else torch.int32)


def _weights(problem: AttentionProblem, subject: Subject, tensors: Tensors) -> ErrorMap | None:
    """How much of its attention each row gives to each group of key tiles, against float64: where a kernel goes wrong along the keys.

    One more run, with values that are 1 in the column of their group of keys and 0 elsewhere: O is then the weight of each group. Works
    for any kernel, since it looks at nothing but O.
    """
    query, key, value = tensors.inputs
    probe, keys = key_group_probe(value, problem.block_n)
    groups = -(-problem.kv_len // keys)
    try:
        got, _ = subject.forward(query, key, probe)
    except (Refused, Broken):
        return None
    left, right = tiles.band(problem)
    mask = {"scale": problem.scale, "left": left, "right": right}
    exact, naive, careful = (
        attention_by_rows(query, key, probe, **mask, dtype=dtype)[0]
        for dtype in (torch.float64, query.dtype, torch.float32)
    )
    check, error, _ = check_tensor("weights", got, exact, naive, careful, 2.0, 1.0)
    found = error_map("weights", error[..., :groups], check.tolerance, None)
    heads = worst_heads(error)
    return replace(found, column_step=keys, columns=problem.kv_len, first_step=program_starts(problem, heads))


def program_starts(problem: AttentionProblem, heads: torch.Tensor) -> np.ndarray | None:
    """int32 (heads, query tiles): at which step of a trace of FlashAttention-2 the program of the tile begins; None beyond PLAYER_STEPS.

    A trace holds the programs by head and query tile, and a program that visits no tile has one step.
    """
    visited = [tiles.visited_tiles(problem, q_tile) for q_tile in range(problem.q_tiles)]
    steps = np.array([max(tile.end - tile.first, 1) for tile in visited])
    if steps.sum() * problem.batch * problem.q_heads > PLAYER_STEPS:
        return None
    starts = np.cumsum(steps) - steps
    return (heads.cpu().numpy()[:, None] * steps.sum() + starts).astype(np.int32)
