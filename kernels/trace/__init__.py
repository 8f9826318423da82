"""What a kernel wrote down: the description of an algorithm, the Trace and its file, the schedule."""

from kernels.trace.trace import LaunchInfo, Trace

__all__ = ["LaunchInfo", "Trace"]
