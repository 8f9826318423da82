"""The runs of one check: what the kernel is handed, what it returned, and whether its runs are equal."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from kernels.check.case.cases import OURS, USERS, CheckCase
from kernels.check.case.layouts import Handed
from kernels.check.result import Repeats
from kernels.check.subject.subjects import Subject
from kernels.check.subject.user_errors import Broken, Refused
from kernels.device.determinism import filled_memory
from kernels.device.runtime import BACKEND
from kernels.oracle.exact import Inputs
from kernels.oracle.naive import whole_mask
from kernels.oracle.rule import GRADIENTS, OutputReferences
from kernels.problem import Pattern, Rule

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def quiet(fraction: float, words: str) -> None:
    """A progress that nobody wants to know of."""


@dataclass
class Calls:
    """Each run gets its own copy of the inputs, which is then searched for changes."""

    case: CheckCase
    subject: Subject
    inputs: Inputs
    d_out: torch.Tensor
    got: dict[str, torch.Tensor] = field(default_factory=dict)
    """O, lse and gradients by name, as far as the first run returned them."""
    failure: Broken | None = None
    changed: dict[str, int] = field(default_factory=dict)
    """By input: elements that a run changed."""
    own_notes: list[str] = field(default_factory=list)
    later: dict[str, torch.Tensor] = field(default_factory=dict)
    """By name: what the furthest of the later runs on the same inputs gave, if they were not all the same."""
    trained: torch.Tensor | None = None
    """O of the last call of a function with inputs that require gradients."""

    @property
    def band(self) -> Rule:
        """The mask, and what is done to the scores, that is right for the kernel."""
        return self.subject.band

    @property
    def scale(self) -> float:
        return self.case.score_scale

    @property
    def notes(self) -> list[str]:
        of_subject = self.subject.notes
        if self.band != self.case.problem.rule:
            of_subject.append("Causal is aligned to the top left here, as the kernel's file declares.")
        return [*self.own_notes, *of_subject]

    def first(self) -> None:
        """Fill `got`, with new memory filled with NaN. An error after O was returned leaves O there.

        Torch's own kernels get no such memory: torch would then choose other algorithms. Raises Refused.
        """
        self.subject.controls.filled = True
        with filled_memory() if self.case.kernel in OURS else nullcontext():
            try:
                self._run_into(self.got)
            except Broken as error:
                self.failure = error
            finally:
                self.subject.controls.filled = False

    def _run_into(self, got: dict[str, torch.Tensor]) -> None:
        out, lse = self.forward(self.inputs)
        got |= {"O": out} if lse is None else {"O": out, "lse": lse}
        if not self.case.gradients:
            return
        try:
            got |= dict(zip(GRADIENTS, self.gradients(self.d_out), strict=True))
        except Refused as error:
            note = f"Gradients were not checked: {str(error).rstrip('.')}."
            self.own_notes += [] if note in self.own_notes else [note]

    def forward(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor | None]:
        """O and lse. They are copied: a kernel may give the same memory again."""
        handed = Handed(inputs, self.case.layout)
        out, lse = self.subject.forward(*handed.tensors)
        self._count(handed)
        return out.clone(), None if lse is None else self.by_convention(lse.clone())

    def by_convention(self, lse: torch.Tensor) -> torch.Tensor:
        """The lse, with -inf in rows without keys where FlashAttention-2 and its like give +inf."""
        if not bool((lse == math.inf).any()) or (isinstance(self.band, Pattern) and self.band.sinks):
            return lse
        plus = ~whole_mask(self.band, lse.device).any(dim=-1) & (lse == math.inf)
        note = "lse is +inf in rows without keys, by FlashAttention-2's convention: taken for -inf."
        if bool(plus.any()) and note not in self.own_notes:
            self.own_notes.append(note)
        return lse.masked_fill(plus, -math.inf)

    def gradients(self, d_out: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """dQ, dK and dV for this dO. Raises Refused if the kernel has none."""
        handed = Handed((*self.inputs, d_out), self.case.layout)
        if self.subject.attached:
            graph = self.subject.attached(*handed.tensors[:3])
            self.trained = graph.out.detach().clone()
            gradients = tuple(graph.gradients(handed.tensors[3]).values())
        elif self.subject.gradients:
            gradients = self.subject.gradients(*handed.tensors)
        else:
            raise Refused("it is forward only")
        self._count(handed)
        return tuple(gradient.clone() for gradient in gradients)

    def references(self, inputs: Inputs) -> OutputReferences:
        return OutputReferences.of(inputs, self.scale, self.band)

    def _count(self, handed: Handed) -> None:
        for name, count in handed.changed().items():
            self.changed[name] = max(count, self.changed.get(name, 0))

    def again(self) -> dict[str, torch.Tensor]:
        """O, lse and gradients of one more run. Raises Refused, and Broken, also if the first gave others."""
        got: dict[str, torch.Tensor] = {}
        self._run_into(got)
        if self.got and got.keys() != self.got.keys():
            raise Broken(f"it returned {' and '.join(got)}, at first {' and '.join(self.got)}")
        return got

    def repeat(self) -> Repeats | None:
        """Bitwise comparison of `case.repeats` runs; an error in one of them becomes the failure.

        The run with poisoned memory counts as the first, unless poisoning may have changed torch's
        algorithms.
        """
        first, count, number = self.got, self.case.repeats, 1
        furthest = dict.fromkeys(first, 0.0)
        unequal = {name: torch.zeros_like(tensor, dtype=torch.bool) for name, tensor in first.items()}
        try:
            if self.case.kernel in USERS and BACKEND != "interpreter":
                first = self.again()
            for number in range(2, count + 1):  # noqa: B007  (the error below names it)
                for name, tensor in self.again().items():
                    differs = bits_differ(tensor, first[name])
                    unequal[name] |= differs
                    largest = difference(tensor, first[name])
                    if differs.any() and largest >= furthest[name]:
                        furthest[name], self.later[name] = largest, tensor
        except (Broken, Refused) as error:
            self.failure = Broken.of(f"run {number} of {count} on the same inputs failed", error)
            return None
        differing = {name: int(elements.sum()) for name, elements in unequal.items()}
        return Repeats(count, differing, max(furthest.values(), default=0.0))


def bits_differ(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """bool, shaped as both: whether the bits of an element are not the same."""
    return _bits_of(one) != _bits_of(other)


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference between two results; 0 if all bits are the same. NaN counts as infinite."""
    where = bits_differ(one, other)
    distance = (one.double() - other.double())[where].abs().nan_to_num(nan=float("inf"))
    return float(distance.max()) if distance.numel() else 0.0


def _bits_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(INTEGERS[tensor.element_size()])
