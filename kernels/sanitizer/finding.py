"""A fault in a kernel's use of memory, as plain values. This file imports neither torch nor triton."""

from dataclasses import dataclass
from pathlib import Path

UNDEFINED = "use of an undefined value"

ON_A_GPU = (
    "Memory accesses are checked in Triton's interpreter only, not on this GPU. Run the check with "
    "TRITON_INTERPRET=1, or under NVIDIA's compute-sanitizer: `compute-sanitizer --tool memcheck python -m "
    "kernels.check ...` finds accesses out of bounds, `--tool initcheck` reads of unwritten memory."
)


@dataclass(frozen=True)
class Finding:
    """One fault. All accesses of one source line to one tensor are one finding."""

    kind: str
    """Such as "out-of-bounds read"; UNDEFINED is told apart."""
    words: str
    """A sentence or two that name kernel, tensor, elements and program, without the last full stop."""
    file: str = ""
    """Path of the user's file; "" for an order dependence, which no single line shows."""
    line: int = 0
    source: str = ""

    @property
    def place(self) -> str:
        """File name and line, such as "mine.py:42"; "" if no line shows the fault."""
        return f"{Path(self.file).name}:{self.line}" if self.file else ""

    @property
    def sentence(self) -> str:
        place = f" ({self.place}: {self.source})" if self.file else ""
        return f"{self.kind}: {self.words}{place}"


def titles(findings: tuple[Finding, ...]) -> str:
    """Such as "an out-of-bounds read at mine.py:42, and 2 more"."""
    first, more = findings[0], len(findings) - 1
    place = f" at {first.place}" if first.place else ""
    article = "an" if first.kind[0] in "aeio" else "a"
    return f"{article} {first.kind}{place}" + (f", and {more} more" if more else "")
