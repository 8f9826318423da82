"""`python -m kernels.check`: the command line is `kernels.check.command`, which uses the worker process."""

import signal
import sys

from kernels.check.command import main

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # CI's time limit: reports are written
    sys.exit(main())
