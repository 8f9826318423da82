"""`python -m kernels.measure`"""

import sys

from kernels.measure.measure import main

sys.exit(main())
