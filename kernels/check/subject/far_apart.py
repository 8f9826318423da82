"""Tensors of a GPU whose batches and heads lie 2^30 elements apart: int32 does not hold the later offsets."""

import torch

from kernels.check.subject.user_errors import Refused
from kernels.device.runtime import DEVICE, INTERPRETED
from kernels.problem import AttentionProblem

STRIDE = 2**30


class FarApart:
    """The memory of all calls of a case. Each gets places of its own, until they come round again."""

    def __init__(self, problem: AttentionProblem) -> None:
        """Raises Refused without a GPU, or if the tensors are too long or its memory too small."""
        longest = problem.q_heads * max(problem.q_len, problem.kv_len) * problem.head_dim
        if INTERPRETED or longest > STRIDE:
            raise Refused("the layout far takes a GPU, and at most 2^30 elements per batch")
        elements, dtype = (problem.batch + problem.q_heads - 1) * STRIDE, getattr(torch, problem.dtype)
        try:
            self._memory = torch.empty(elements, dtype=dtype, device=DEVICE).untyped_storage()
        except torch.OutOfMemoryError as error:
            size = elements * dtype.itemsize / 2**30
            raise Refused(f"the layout far takes {size:.0f} GiB of GPU memory for this case") from error
        self._begin = 0

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same numbers in this memory."""
        _, heads, length, head_dim = tensor.shape
        size = heads * length * head_dim
        begin = self._begin if self._begin + size <= STRIDE else 0
        self._begin = begin + size
        strides = (STRIDE, STRIDE + length * head_dim, head_dim, 1)
        # a view would share its count of changes with those of earlier calls, whose graphs may be kept
        far = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return far.set_(self._memory, begin, tensor.shape, strides).copy_(tensor)
