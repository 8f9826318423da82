"""`python -m kernels.worker`: the child process."""

from kernels.worker.server import main

main()
