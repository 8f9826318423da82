"""What a kernel wrote down: the description of an algorithm, the Trace and its file, the schedule."""

from kernels.trace.trace import InvalidTrace, LaunchInfo, Trace

__all__ = ["InvalidTrace", "LaunchInfo", "Trace"]
