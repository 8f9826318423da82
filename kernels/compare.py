"""`python -m kernels.compare`; see `kernels.tools.compare`."""

import sys

from kernels.tools.compare import main

if __name__ == "__main__":
    sys.exit(main())
