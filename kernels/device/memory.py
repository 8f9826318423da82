"""Memory of this machine and of this process, as psutil reads them."""

import psutil


def available_memory_bytes() -> int:
    """Bytes that a new program could take without swapping: MemAvailable on Linux."""
    return psutil.virtual_memory().available


def process_data_bytes() -> int:
    """Bytes of private writable memory of this process on Linux, with the stack of its main thread.

    Linux compares RLIMIT_DATA with this number minus that stack, which by default has at most 8 MiB.
    """
    return psutil.Process().memory_info().data


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of Python, NumPy or torch, on the GPU or the CPU, says that memory ran out."""
    known = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return known or "can't allocate memory" in str(error)
