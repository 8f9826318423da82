"""The result of a check, as plain values and NumPy arrays. This file imports neither torch nor triton."""

import math
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from kernels.check.case.cases import CheckCase
from kernels.device.backend import DeviceInfo
from kernels.oracle.report import ANYTHING_ALLOWED
from kernels.sanitizer.finding import UNDEFINED, Finding, titles

FORMAT = "flash-attention-check"
FORMAT_VERSION = 5
MAX_SCORES = 1 << 22
"""Problems with more scores than this are not searched for a cause: it would take minutes."""
NOTHING_FITS = "nothing that is known fits"
UNUSABLE, NOT_RUN = "not usable", "not run"
"""What `CheckResult.ended` says of a file without such a function, and of a case that was not begun."""


@dataclass(frozen=True)
class TensorCheck:
    """The error of one tensor against float64, and that of a low-precision reference.

    The rule of FlashAttention's tests is max_error <= tolerance; kernels.oracle.rule gives the tolerance.
    """

    name: str
    max_error: float
    mean_error: float
    naive_max_error: float
    naive_mean_error: float
    tolerance: float
    worst: tuple[int, ...]
    """Index of the largest error: (batch, head, row, column); lse has no column."""
    worst_value: float
    exact_value: float
    """The float64 value at that index."""
    wrong_nonfinite: int
    """Elements that are NaN or infinite although float64 differs, or finite although float64 is not."""
    elements: int
    reference: str = ""
    """The type of the low-precision reference, such as "float16"."""

    @property
    def passes(self) -> bool:
        """Whether the largest error is allowed; NaN is not."""
        return self.max_error <= self.tolerance

    @property
    def share(self) -> float:
        """Largest error over what is allowed; above 1 fails."""
        return _over(self.max_error, self.tolerance, 0.0)

    @property
    def ratio(self) -> float:
        return _over(self.max_error, self.naive_max_error, 1.0)

    @property
    def words(self) -> str:
        if not self.wrong_nonfinite:
            return f"{self.name} is off by {self.max_error:.1e}; {self.tolerance:.1e} is allowed"
        missing = "a number where float64 has NaN or infinity"
        what = missing if math.isfinite(self.worst_value) else "NaN or infinity where float64 differs"
        return f"{self.wrong_nonfinite:,} of the {self.elements:,} elements of {self.name} are {what}"


def _over(error: float, other: float, of_nothing: float) -> float:
    if other == 0:
        return of_nothing if error == 0 else math.inf
    return error / other if math.isfinite(other) else 0.0


@dataclass(frozen=True)
class Repeats:
    """Comparison of several runs on the same inputs, bit by bit."""

    runs: int
    differing: dict[str, int]
    """By tensor name: elements that were not the same in every run."""
    largest: float
    """Largest difference between any run and the first."""

    @property
    def equal(self) -> bool:
        return not any(self.differing.values())

    @property
    def words(self) -> str:
        if self.equal:
            return f"{self.runs} runs: bitwise equal"
        by = f"by up to {self.largest:.2e}"
        return f"{self.runs} runs were not bitwise equal: {_counts(self.differing)}, {by}"


def _counts(elements: dict[str, int]) -> str:
    """Such as "dQ (12 elements) and dK (3 elements)"."""
    return " and ".join(f"{name} ({count:,} elements)" for name, count in elements.items() if count)


@dataclass(frozen=True)
class Cause:
    """What a wrong result equals, within the rule: a right computation of something else."""

    words: str
    """Such as "attention with the causal mask off by one"."""
    tensors: tuple[str, ...]
    """The wrong tensors that it explains."""
    numbers: str = ""
    """Numbers of this case alone."""

    @property
    def sentence(self) -> str:
        """Such as "dQ and dK equal attention with the causal mask off by one", without the numbers."""
        return f"{' and '.join(self.tensors)} {'equal' if self.tensors[1:] else 'equals'} {self.words}"


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """The largest error in each cell, divided by the allowed error: above 1 the cell fails.

    A cell covers `row_step` rows and `column_step` columns. `kind` is "O" or a gradient's name (rows x
    head_dim), or "weights" (query rows x keys): how much of its attention each row gives to a group of keys.
    """

    kind: str
    values: np.ndarray
    """float32 (row cells, column cells)"""
    head: int
    """batch * heads + head: the head with the largest error."""
    row_step: int
    column_step: int
    rows: int
    columns: int


@dataclass(frozen=True, eq=False)
class CheckResult:
    case: CheckCase
    label: str
    device: DeviceInfo
    checked_at: str
    seconds: float
    tensors: tuple[TensorCheck, ...] = ()
    repeats: Repeats | None = None
    refused: str = ""
    """Why the kernel did not run, so that there is no verdict; "" if it ran."""
    broken: str = ""
    """The error that the kernel raised, or what it returned instead of an output. "" if neither."""
    stopped: str = ""
    """Why the check ended without a verdict, such as a time limit; "" if it ended."""
    ended: str = ""
    """How it ended before its time, as programs compare it: UNUSABLE, NOT_RUN, the signal ("SIGSEGV") or the
    exit status ("exit 3") of the process, or a class of `worker.failures`; "" if it did not."""
    trace: str = ""
    """The traceback of that error, from the user's first line on."""
    changed: dict[str, int] = field(default_factory=dict)
    """By input: elements that the kernel changed in place."""
    findings: tuple[Finding, ...] = ()
    causes: tuple[Cause, ...] = ()
    """What the wrong results equal; empty if nothing that is known fits."""
    notes: tuple[str, ...] = ()
    interpreted: bool = False
    launches: dict[str, int] | None = None
    """Triton kernels that one call of the user's function launched, "forward" and "backward"; None if they
    were not counted."""
    written: tuple[str, ...] = ()
    """Results that a launch wrote, as far as the interpreter tells."""
    maps: tuple[ErrorMap, ...] = ()

    @property
    def verdict(self) -> str:
        """ "pass", "fail", "invalid" if nothing could be compared, or "error" if the check was cut short."""
        if self.stopped or self.refused:
            return "error" if self.stopped else "invalid"
        if self.broken or self.changed or self.faults or self.failing:
            return "fail"
        return "invalid" if self.shows_nothing else "pass"

    @property
    def faults(self) -> list[Finding]:
        """Findings that fail a case. Of undefined lanes, what they change was judged with 0 there."""
        return [finding for finding in self.findings if finding.kind != UNDEFINED]

    @property
    def shows_nothing(self) -> str:
        """Why a pass is not informative; "" if it is."""
        return ANYTHING_ALLOWED if any(tensor.tolerance == math.inf for tensor in self.tensors) else ""

    @property
    def failing(self) -> list[TensorCheck]:
        """The worst first; lse last, because its errors are held against float32."""
        wrong = [tensor for tensor in self.tensors if not tensor.passes]
        return sorted(wrong, key=lambda tensor: (tensor.name == "lse", -tensor.share))

    @property
    def worst_share(self) -> float:
        """Largest error over what is allowed, of all tensors; above 1 fails."""
        return max((tensor.share for tensor in self.tensors), default=0.0)

    @property
    def reason(self) -> str:
        if words := self.stopped or self.refused or self.broken:
            return words
        if self.changed:
            return f"it changes its inputs in place: {_counts(self.changed)}"
        if self.failing:
            return self.failing[0].words
        if self.faults:
            return f"every error is below what the rule allows, but there is {titles(tuple(self.faults))}"
        judged = "" if self.tensor("dQ") else "; gradients were not judged"
        lanes = f" ({titles(self.findings)})" if self.findings else ""
        undefined = f"; right if the masked loads without `other` give 0{lanes}" if lanes else ""
        passes = f"every error is below what the rule allows{undefined}{judged}"
        return self.shows_nothing or passes

    @property
    def computed_by(self) -> str:
        """Whether Triton kernels computed the results; "" if that was not counted."""
        if self.launches is None or self.refused:
            return ""
        if not any(self.launches.values()):
            return "No Triton kernel ran"
        counted = ", ".join(f"{count} {phase}" for phase, count in self.launches.items())
        results = [tensor.name for tensor in self.tensors]
        rest = [name for name in results if name not in self.written]
        wrote = f"; they wrote {', '.join(self.written) or 'none of the results'}"
        others = f", other code {', '.join(rest)}" if self.written and rest else ""
        return f"Triton launches per call: {counted}{(wrote + others) if self.interpreted else ''}"

    @property
    def cause(self) -> str:
        """What the wrong results equal, in one sentence; "" if it is not known."""
        return "; ".join(f"{cause.sentence}, {cause.numbers}".rstrip(", ") for cause in self.causes)

    @property
    def cause_or_none_known(self) -> str:
        """`cause`, or that nothing fits if results are wrong and a cause was looked for; "" if neither."""
        return self.cause or (NOTHING_FITS if self.unexplained else "")

    @property
    def unexplained(self) -> bool:
        """Whether nothing that was found explains the wrong results; a cause was looked for."""
        searched = self.case.problem.scores <= MAX_SCORES
        return bool(self.failing) and searched and not (self.causes or self.faults)

    def tensor(self, name: str) -> TensorCheck | None:
        """The check of "O", "lse", "dQ", "dK" or "dV"; None if it was not checked."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)

    def map(self, kind: str) -> ErrorMap | None:
        return next((error_map for error_map in self.maps if error_map.kind == kind), None)

    def as_dict(self) -> dict:
        """Plain values of everything but the maps, and what follows from them; NaN and infinities stay."""
        values = msgspec.to_builtins(replace(self, maps=()))
        for tensor, found in zip(self.tensors, values["tensors"], strict=True):
            found |= {"passes": tensor.passes, "ratio": tensor.ratio}
        del values["maps"]
        return values | {"verdict": self.verdict, "reason": self.reason, "cause": self.cause}
