"""What a kernel wrote down: the vocabulary of an algorithm, the frozen Trace and its file, the schedule."""

from kernels.trace.trace import InvalidTrace, LaunchInfo, Trace

__all__ = ["InvalidTrace", "LaunchInfo", "Trace"]
