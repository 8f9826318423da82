"""`python -m kernels.check`: the command line is `kernels.tools.check`, which uses the worker process."""

import sys

from kernels.tools.check import main

if __name__ == "__main__":
    sys.exit(main())
