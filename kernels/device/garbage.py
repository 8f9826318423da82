"""Collections of garbage that are quick enough to stand before every measurement of memory."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def quick_collections() -> Iterator[None]:
    """Within it, gc.collect() does not look at the objects that were there before. Not to be nested.

    Memory and graphs of a call are free of garbage only after a collection, and there are five or so per
    implementation. With all that torch and a compiler have imported, each takes 0.1 s or more.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
