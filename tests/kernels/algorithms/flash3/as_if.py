"""A trace of FlashAttention-3 for machines that cannot run it, from the plain kernel's steps on its tiles.

On a Hopper GPU the two traces are the same (test_kernel.py), but for the sums: only the plain one has them.
"""

from dataclasses import replace

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.trace import Trace

ENTRY = ALGORITHMS["flash3"]


def as_if_run(problem) -> Trace:
    """What the Hopper kernel would have written down; the problem gets its own tiles."""
    trace = run_traced(ENTRY.with_own_tiles(problem), "flash2").without_acc()
    names = tuple(kernel.name for kernel in ENTRY.kernels)
    return replace(trace, algorithm=ENTRY.name, kernels=names)
