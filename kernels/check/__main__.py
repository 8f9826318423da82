"""`python -m kernels.check`"""

import sys

from kernels.check.check import main

sys.exit(main())
