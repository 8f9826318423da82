"""Attention over a sequence that is shared out over ranks (context parallelism), on torch.distributed."""

from kernels.attention.context_parallel.attention import context_parallel_attention, context_parallel_decode
from kernels.attention.context_parallel.shards import shard, unshard

__all__ = ["context_parallel_attention", "context_parallel_decode", "shard", "unshard"]
