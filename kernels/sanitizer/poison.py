"""What a load gives in the lanes that its mask leaves out, if it names no value for them.

Triton leaves these values undefined (`triton.language.load`: "if mask[idx] is false, return other[idx]", and
a padding_option of "" is "an undefined value"). The interpreter gives 0, which hides a kernel that uses them.
A poison gives NaN, or a large negative number, and notes the lines that load so.
"""

from typing import Any

import numpy as np

from kernels.sanitizer.finding import UNDEFINED, Finding
from kernels.sanitizer.source import Site, current_site, line_of

BFLOAT16_NAN = 0x7FC0


class Poison:
    """Undefined values for the loads of one watch."""

    def __init__(self) -> None:
        self.on = False
        self.only: Site | None = None
        """The one line whose loads are poisoned; None for all."""
        self.sites: dict[Site, int] = {}
        """Lines that load undefined values: elements so far."""

    def filled(self, loaded: Any, mask: Any) -> Any:
        """A loaded TensorHandle, with poison in the lanes that the kernel's mask leaves out."""
        lanes = mask if isinstance(mask, np.ndarray) else mask.data
        if not self.on or lanes.all():
            return loaded
        value = poison_of(loaded.dtype.scalar, loaded.data.dtype)
        if value is not None:
            site = current_site()
            self.sites[site] = self.sites.get(site, 0) + int(lanes.size - np.count_nonzero(lanes))
            if self.only in (None, site):
                loaded.data = np.where(lanes, loaded.data, value)
        return loaded


def poison_of(kind: Any, stored: np.dtype) -> np.generic | None:
    """Poison for elements of a Triton scalar type that NumPy stores as `stored`.

    None for pointers, bool, and floats of 8 bits.
    """
    if stored.kind == "f":
        return stored.type(np.nan)
    if kind.is_bf16():
        return stored.type(BFLOAT16_NAN)
    if kind.is_floating() or kind.is_ptr() or kind.primitive_bitwidth < 8:
        return None
    info = np.iinfo(stored)
    return stored.type(info.min // 3 if stored.kind == "i" else info.max // 3)


def finding_of(site: Site, tensors: list[str]) -> Finding:
    """The fault of a load whose undefined values reach these results."""
    words = (
        f"undefined values of a masked load without `other` reach {', '.join(tensors)}. Triton leaves these "
        "lanes undefined; here they got NaN, or a large negative number. Give the load "
        '`other=` (a block pointer: `padding_option="zero"`)'
    )
    return Finding(UNDEFINED, words, *site, line_of(*site))
