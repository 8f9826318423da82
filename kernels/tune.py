"""`python -m kernels.tune`; see `kernels.tools.tune`."""

import sys

from kernels.tools.tune import main

if __name__ == "__main__":
    sys.exit(main())
