"""The algorithms that tests may run on any device and on any small problem."""

from kernels.algorithms import ALGORITHMS

ANYWHERE = [name for name, entry in ALGORITHMS.items() if entry.needs is None]
"""Names, in the order of ALGORITHMS. One that needs a GPU is run by tests of its own folder."""
