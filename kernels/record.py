"""`python -m kernels.record`; see `kernels.tools.record`."""

import sys

from kernels.tools.record import main

if __name__ == "__main__":
    sys.exit(main())
