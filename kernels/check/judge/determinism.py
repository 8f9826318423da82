"""What changes the bits of a row? Runs a case again in other ways: those of TITLES of `kernels.check.result`.

A kernel whose row depends on none of them is deterministic and batch invariant.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from kernels.check.case.cases import UPLOADED, CheckCase
from kernels.check.files.uploads import Upload
from kernels.check.judge.calls import Calls, Tensors, quiet, tensors_of
from kernels.check.judge.compare import difference
from kernels.check.result import Determinism, Variation
from kernels.check.subject.subjects import make_subject
from kernels.check.subject.user_errors import Broken, Refused, UserKernelError
from kernels.device.runtime import INTERPRETED
from kernels.problem import InvalidProblem
from kernels.worker.requests import Progress

ENDS = (Refused, Broken, UserKernelError)
"""What a run may raise in the place of a result."""
LEAST_RUNS = 3
BATCHES = (2, 4)
BY_ROW = ("O", "lse", "dQ")
"""Tensors with a row per query: those of keys sum over the queries, whose order may change their rounding."""

Results = dict[str, torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]


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
    if case.kernel == UPLOADED:
        remedy = "Choose a kernel to run on its Q, K and V."
        raise InvalidProblem("kernel", case.kernel, "a result from a file cannot be run again", remedy)
    tensors = tensors_of(case, upload)
    try:
        base = _results(case, tensors)
        ways = [
            _Way("runs", f"run {number}", case, tensors, base)
            for number in range(2, max(LEAST_RUNS, case.repeats) + 1)
        ]
        ways += [*_batches(case, tensors), *_places(case, tensors, base)]
    except ENDS as error:
        return Determinism((), (str(error),))
    found = []
    for number, way in enumerate(ways):
        progress(number / len(ways), way.label)
        found.append(_compared(way))
    return Determinism(tuple(found), tuple(_notes(case)))


def _results(case: CheckCase, tensors: Tensors) -> Results:
    """O, lse and gradients of one run."""
    return Calls(case, make_subject(case), tensors).again()


def _compared(way: _Way) -> Variation:
    try:
        got = _results(way.case, way.tensors)
    except ENDS as error:
        return Variation(way.kind, way.label, tuple(way.base), refused=str(error))
    names = tuple(name for name in way.base if name in got)
    differences = (difference(name, way.base[name], way.read(got[name])) for name in names)
    return Variation(way.kind, way.label, names, tuple(filter(None, differences)))


def _batches(case: CheckCase, tensors: Tensors) -> Iterator[_Way]:
    """The first sequence alone, and as the last one of larger batches of other sequences."""
    if case.problem.pattern and case.problem.pattern.by_head:
        return  # a mask that asks for the batch is another one in each
    alone = replace(case, problem=case.problem.with_(batch=1))
    first = _changed(tensors, lambda tensor: tensor[:1])
    base = _results(alone, first)
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
    if problem.mask != "full" or problem.alibi or problem.q_len == 1:
        return
    for shift in sorted({1, min(problem.block_m // 2, problem.q_len - 2) + 1}):
        moved = _changed(tensors, partial(torch.roll, shifts=shift, dims=2), keys=False)
        back = partial(torch.roll, shifts=-shift, dims=2)
        yield _Way("place", f"rows {shift} further on", case, moved, by_row, back)
    row = problem.q_len // 2
    pick: Change = lambda tensor: tensor[:, :, row : row + 1]  # noqa: E731
    one, picked = replace(case, problem=problem.with_(q_len=1)), _changed(tensors, pick, keys=False)
    of_row = {name: pick(tensor) for name, tensor in by_row.items()}
    yield _Way("place", f"row {row} alone", one, picked, of_row)


def _changed(tensors: Tensors, change: Change, *, keys: bool = True) -> Tensors:
    """Other Q and dO, and with `keys` other K and V too."""
    query, key, value = tensors.inputs
    if keys:
        key, value = change(key).contiguous(), change(value).contiguous()
    return Tensors((change(query).contiguous(), key, value), change(tensors.d_out).contiguous(), {})


def _notes(case: CheckCase) -> Iterator[str]:
    if INTERPRETED:
        yield (
            "The interpreter runs one program after the other. What parallel programs and atomics change is "
            "seen on a GPU only."
        )
    if case.problem.mask != "full":
        yield "Rows were not moved within the query: under this mask each place sees other keys."
