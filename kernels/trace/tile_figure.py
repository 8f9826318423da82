"""What of a tile step can be shown number by number: the matrices that it records, and how they multiply."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """A place for a matrix in the picture of a tile step; what stands in it changes from phase to phase."""

    name: str
    row: int
    column: int
    """Where it lies: a product has its first factor on its left and its second above it."""
    rows: str
    columns: str
    """What its matrix is cut along: "q_tile", "kv_tile", "head_dim", or "one" for a column of one number."""
    transposed: bool = False
    """Whether it is drawn with rows and columns exchanged."""


@dataclass(frozen=True)
class RecordedMatrix:
    """A matrix that a program has in hand from a phase on."""

    name: str
    """Key in Trace.matrices, or the field of Trace if `is_field`."""
    slot: str
    phase: str
    """The phase that makes it."""
    label: str = ""
    """What it is called above the picture; its name if empty."""
    is_field: bool = False
    """Whether the trace holds it anyway, as a sum or as a result with one value per row."""
    scaled: bool = False
    """Whether it is shown times the scale of the problem, 1 / sqrt(head_dim)."""
    made_of: tuple[str, ...] = ()
    """Names of the matrices that its elements are made of, element by element."""


@dataclass(frozen=True)
class Product:
    """An element of `result` is a row or column of `first` times a row or column of `second`.

    `first_by` says what of `first` the row of the element picks, "row" or "column"; `second_by` what of
    `second` its column picks.
    """

    result: str
    first: str
    second: str
    first_by: str
    second_by: str
    phase: str
    """From which phase on the slot holds this product."""


@dataclass(frozen=True)
class TileFigure:
    """The picture of a tile step of one kernel."""

    slots: tuple[Slot, ...]
    matrices: tuple[RecordedMatrix, ...]
    products: tuple[Product, ...] = ()

    @property
    def recorded(self) -> tuple[RecordedMatrix, ...]:
        """The matrices that the kernel writes down for this picture, in the order of its buffers."""
        return tuple(matrix for matrix in self.matrices if not matrix.is_field)

    def slot(self, name: str) -> Slot:
        """The slot of that name. Raises StopIteration if there is none."""
        return next(slot for slot in self.slots if slot.name == name)
