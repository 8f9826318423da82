"""`python -m kernels.check`: the command line is `kernels.check.command`, which uses the worker process."""

import sys

from kernels.check.command import main

if __name__ == "__main__":
    sys.exit(main())
