"""Whether results stay the same, bit by bit, as plain values. This file imports neither torch nor triton."""

from __future__ import annotations

from dataclasses import asdict, dataclass

TITLES = {
    "runs": "the same inputs again",
    "batch": "other batches around it",
    "place": "another place of the row",
    "splits": "other parts of the keys",
}
"""Kinds of variations, in the order in which they are shown."""


@dataclass(frozen=True)
class Difference:
    """How far one tensor is from what it was without the variation."""

    tensor: str
    elements: int
    """Elements whose bits differ."""
    of: int
    """All elements that were compared."""
    ulps: int
    """Largest distance in units in the last place of the tensor's type."""
    largest: float

    @property
    def words(self) -> str:
        """Such as "dQ: 12 of 4,096 elements differ, by up to 2 ulps"."""
        ulps = f"{self.ulps:,} ulp{'s' if self.ulps != 1 else ''}"
        return f"{self.tensor}: {self.elements:,} of {self.of:,} elements differ, by up to {ulps}"


@dataclass(frozen=True)
class Variation:
    """One way to run the same rows again, and what changed."""

    kind: str
    """A key of TITLES."""
    label: str
    tensors: tuple[str, ...]
    """Tensors that were compared."""
    differences: tuple[Difference, ...] = ()
    """Of those that differ."""
    refused: str = ""
    """Why it did not run."""

    @property
    def title(self) -> str:
        """What changes from run to run, in words."""
        return TITLES[self.kind]

    @property
    def equal(self) -> bool:
        """Whether all bits are the same."""
        return not self.differences and not self.refused

    @property
    def words(self) -> str:
        """What came of it, in words."""
        if self.refused:
            return f"not run: {self.refused}"
        if self.equal:
            return f"equal bit by bit ({', '.join(self.tensors)})"
        return "; ".join(difference.words for difference in self.differences)


@dataclass(frozen=True)
class Determinism:
    """All variations of a case, and what was left out."""

    variations: tuple[Variation, ...]
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """In one sentence, what the results depend on."""
        ran = [variation for variation in self.variations if not variation.refused]
        changing = dict.fromkeys(each.title for each in ran if each.differences)
        if not ran:
            return "nothing could be compared"
        lacking = len(self.variations) - len(ran)
        not_run = f"{lacking} of {len(self.variations)} variations did not run"
        if changing:
            return f"the bits change with {' and with '.join(changing)}{f'; {not_run}' if lacking else ''}"
        if lacking:
            return f"{not_run}, the others give the same bits"
        return f"all {len(ran)} variations give the same bits"

    @property
    def sentence(self) -> str:
        """The words with a capital and a full stop."""
        return f"{self.words[0].upper()}{self.words[1:]}."

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON but for infinities."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> Determinism:
        """The reverse of `as_dict`."""
        variations = tuple(
            Variation(
                each["kind"],
                each["label"],
                tuple(each["tensors"]),
                tuple(Difference(**difference) for difference in each["differences"]),
                each["refused"],
            )
            for each in values["variations"]
        )
        return cls(variations, tuple(values["notes"]))


def determinism_lines(determinism: Determinism) -> str:
    """The variations for a shell."""
    lines = [f"determinism: {determinism.words}"]
    lines += [f"  {each.label}: {each.words}" for each in determinism.variations]
    return "\n".join(f"        {line}" for line in [*lines, *determinism.notes])
