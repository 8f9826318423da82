"""Memory of this machine and of this process, as psutil reads them."""

from __future__ import annotations

import psutil


def available_memory_bytes() -> int:
    """Memory that a new program could take without swapping: MemAvailable on Linux."""
    return psutil.virtual_memory().available


def process_data_bytes() -> int:
    """Private writable memory that this process has mapped, on Linux: its heap and the stack of its main thread.

    The kernel holds RLIMIT_DATA against the same number without that stack, of at most 8 MiB by default.
    """
    return psutil.Process().memory_info().data
