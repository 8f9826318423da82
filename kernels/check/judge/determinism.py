"""Calls a case again in ways that must not change a row's result, and compares bit by bit.

The ways: the same inputs again; the same sequence in larger batches; the same row at another place of the
query, in another head, or alone; and for split-KV another number of parts. A kernel whose row depends on none
of these is deterministic and batch invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from kernels.algorithms import ALGORITHMS
from kernels.check.case.cases import CheckCase
from kernels.check.files.uploads import Upload
from kernels.check.judge.bits import difference
from kernels.check.judge.calls import Calls, Tensors, tensors_of
from kernels.check.judge.memory import faults, watched_again
from kernels.check.judge.run import Progress
from kernels.check.result import Determinism, Variation
from kernels.check.subject.subjects import make_subject
from kernels.check.subject.user_errors import Broken, Refused
from kernels.check.subject.user_kernel import UserKernelError
from kernels.device.runtime import INTERPRETED

Results = dict[str, torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]
LEAST_RUNS = 3
BATCHES = (2, 4)
SPLITS = (1, 2, 3, 4, 8)
BY_ROW = ("O", "lse", "dQ")
"""Tensors with a row per query: those of keys sum over the queries, whose order may change their rounding."""


@dataclass(frozen=True)
class _Way:
    """One variation: case and tensors to run, and how its results are read back as those of the base."""

    kind: str
    label: str
    case: CheckCase
    tensors: Tensors
    read: Change
    base: Results
    names: tuple[str, ...]


def run_determinism(
    case: CheckCase, upload: Upload | None = None, progress: Progress = lambda fraction, words: None
) -> Determinism:
    """Run the variations of a case. Raises InvalidProblem for a result from a file, which nothing can run."""
    with watched_again(case.kernel) as watch:
        found = _determinism(case, tensors_of(case, upload), progress)
        return replace(found, notes=(*found.notes, *faults(watch)))


def _determinism(case: CheckCase, tensors: Tensors, progress: Progress) -> Determinism:
    try:
        base = _results(case, tensors)
    except (Refused, Broken, UserKernelError) as error:
        return Determinism((), (str(error),))
    ways = [*_again(case, tensors, base), *_batches(case, tensors), *_places(case, tensors, base)]
    ways += _splits(case, tensors, base)
    found = []
    for number, way in enumerate(ways):
        progress(number / len(ways), way.label)
        found.append(_compared(way))
    return Determinism(tuple(found), tuple(_notes(case, base)))


def _results(case: CheckCase, tensors: Tensors) -> Results:
    return Calls(case, make_subject(case), tensors).again()


def _compared(way: _Way) -> Variation:
    try:
        got = _results(way.case, way.tensors)
    except (Refused, Broken, UserKernelError) as error:
        return Variation(way.kind, way.label, way.names, refused=str(error))
    names = tuple(name for name in way.names if name in got and name in way.base)
    differences = (difference(name, way.base[name], way.read(got[name])) for name in names)
    return Variation(way.kind, way.label, names, tuple(filter(None, differences)))


def _again(case: CheckCase, tensors: Tensors, base: Results) -> Iterator[_Way]:
    for number in range(2, max(LEAST_RUNS, case.repeats) + 1):
        yield _Way("runs", f"run {number}", case, tensors, _as_it_is, base, tuple(base))


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _batches(case: CheckCase, tensors: Tensors) -> Iterator[_Way]:
    """The first sequence alone, and as the last one of larger batches of other sequences."""
    alone = replace(case, problem=case.problem.with_(batch=1))
    first = _each(tensors, lambda tensor: tensor[:1])
    try:
        base = _results(alone, first)
    except (Refused, Broken, UserKernelError):
        return
    for batch in BATCHES:
        larger = replace(case, problem=case.problem.with_(batch=batch))
        among = _each(first, lambda tensor, batch=batch: _among_others(tensor, batch))  # type: ignore[misc]
        label = f"last of a batch of {batch}, against alone"
        yield _Way("batch", label, larger, among, lambda tensor: tensor[-1:], base, tuple(base))


def _among_others(tensor: torch.Tensor, batch: int) -> torch.Tensor:
    """The sequence behind others, which hold its numbers in another order."""
    others = [tensor.roll(shift, dims=2).flip(3) for shift in range(1, batch)]
    return torch.cat([*others, tensor])


def _places(case: CheckCase, tensors: Tensors, base: Results) -> Iterator[_Way]:
    """The same rows at other places: in other heads, and with a full mask in other tiles and alone."""
    problem = case.problem
    names = tuple(name for name in BY_ROW if name in base)
    if problem.q_heads > 1:
        turned = _each(tensors, lambda tensor: tensor.flip(1))
        label = "heads in reverse"
        yield _Way("place", label, case, turned, lambda tensor: tensor.flip(1), base, tuple(base))
    if problem.mask != "full":
        return
    for shift in sorted({1, problem.block_m // 2 + 1}):
        if shift < problem.q_len:
            moved = _rows(tensors, lambda tensor, shift=shift: tensor.roll(shift, dims=2))  # type: ignore[misc]
            back = lambda tensor, shift=shift: tensor.roll(-shift, dims=2)  # noqa: E731
            yield _Way("place", f"rows {shift} further on", case, moved, back, base, names)
    if problem.q_len > 1:
        row = problem.q_len // 2
        one = replace(case, problem=problem.with_(q_len=1))
        picked = _rows(tensors, lambda tensor: tensor[:, :, row : row + 1])
        of_row = {name: base[name][:, :, row : row + 1] for name in names}
        yield _Way("place", f"row {row} alone", one, picked, _as_it_is, of_row, names)


def _splits(case: CheckCase, tensors: Tensors, base: Results) -> Iterator[_Way]:
    entry, problem = ALGORITHMS.get(case.kernel), case.problem
    if entry is None or not any(kernel.splits_keys for kernel in entry.kernels):
        return
    for parts in SPLITS:
        if parts <= problem.kv_tiles:
            other = replace(case, problem=problem.with_(kv_splits=parts))
            label = f"{parts} part{'s' if parts > 1 else ''}, against {problem.kv_splits or 'the default'}"
            yield _Way("splits", label, other, tensors, _as_it_is, base, tuple(base))


def _each(tensors: Tensors, change: Change) -> Tensors:
    query, key, value = (change(tensor).contiguous() for tensor in tensors.inputs)
    return Tensors((query, key, value), change(tensors.d_out).contiguous(), {})


def _rows(tensors: Tensors, change: Change) -> Tensors:
    """Change what has a row per query, and leave K and V."""
    query, key, value = tensors.inputs
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
