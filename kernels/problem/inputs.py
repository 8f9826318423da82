"""Seeded query, key and value tensors: the same numbers on every backend.

Only the functions that make tensors import torch.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from kernels.device.memory import available_memory_bytes
from kernels.problem.attention_problem import AttentionProblem
from kernels.problem.words import draw_text

if TYPE_CHECKING:
    import torch


def make_inputs(
    problem: AttentionProblem, device: str = "cpu"
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """query (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, kv_len, head_dim).

    Drawn on the CPU in float32 by NumPy's PCG64 from problem.seed, then rounded to problem.dtype. The
    distributions of `problem.inputs`:
    normal        standard normal; scores have standard deviation 1
    growing_max   the largest score of a row grows from each key tile to the next: a rescale at every step
    falling_max   the largest score of a row lies in its first key tile: no rescale after it
    large         scores of several hundred: exponentials overflow unless the row max is subtracted
    one_hot       each query matches one key that it sees, and ignores the others
    constant      all scores of a row are equal: attention is the mean of the visible values
    text          the words of problem.text: see words.py
    shared        normal, with the same keys and values in every head and batch; dO is 1 everywhere
    """
    import torch

    dtype = getattr(torch, problem.dtype)
    query, key, value = (torch.from_numpy(array).to(dtype).to(device) for array in draw_inputs(problem))
    return query, key, value


def draw_inputs(problem: AttentionProblem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The numbers of `make_inputs` as NumPy float32 arrays, before they are rounded to problem.dtype.

    Raises MemoryError before anything is drawn if the tensors do not fit the free memory of the host. A
    system that promises more memory than it has would swap for minutes and then kill the process.
    """
    needed = 4 * (math.prod(problem.q_shape) + 2 * math.prod(problem.kv_shape))
    if needed > available_memory_bytes():
        raise MemoryError(f"can't allocate memory: tried to allocate {needed} bytes for query, key and value")
    if problem.inputs == "text":
        return draw_text(problem)
    rng = np.random.default_rng(problem.seed)
    query, key = _DRAW[problem.inputs](problem, rng)
    value = _normal(rng, problem.kv_shape)
    if problem.inputs == "shared":
        key, value = (np.broadcast_to(each[:1, :1], each.shape).copy() for each in (key, value))
    return query, key, value


def make_d_output(problem: AttentionProblem, device: str = "cpu") -> "torch.Tensor":
    """Gradient of the output, (batch, q_heads, q_len, head_dim): standard normal, from a seed of its own.

    Of shared inputs it is that of `out.sum()`: 1 everywhere.
    """
    import torch

    if problem.inputs == "shared":
        return torch.ones(problem.q_shape, dtype=getattr(torch, problem.dtype), device=device)
    rng = np.random.default_rng((problem.seed, 1))
    return torch.from_numpy(_normal(rng, problem.q_shape)).to(getattr(torch, problem.dtype)).to(device)


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _draw_normal(
    problem: AttentionProblem, rng: np.random.Generator, size: float = 1
) -> tuple[np.ndarray, np.ndarray]:
    return np.float32(size) * _normal(rng, problem.q_shape), np.float32(size) * _normal(rng, problem.kv_shape)


def _draw_constant(problem: AttentionProblem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return np.full(problem.q_shape, 0.5, np.float32), np.full(problem.kv_shape, 0.5, np.float32)


def _draw_one_hot(problem: AttentionProblem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    key = _normal(rng, problem.kv_shape)
    key *= np.float32(np.sqrt(problem.head_dim)) / np.linalg.norm(key, axis=-1, keepdims=True)
    if problem.pattern and problem.pattern.mask:
        seen = (problem.pattern.visible(row, 1)[0] for row in range(problem.q_len))
        choices = [np.flatnonzero(row) if row.any() else [0] for row in seen]
        picked = np.array([keys[rng.integers(len(keys))] for keys in choices])
    else:
        ranges = np.array([problem.band.visible_keys(row) for row in range(problem.q_len)])
        picked = ranges[:, 0] + rng.integers(0, np.maximum(ranges[:, 1] - ranges[:, 0], 1))
    heads = np.repeat(key, problem.group_size, axis=1)
    return np.float32(16) * heads[:, :, picked], key


def _draw_ramp(
    problem: AttentionProblem, rng: np.random.Generator, direction: int
) -> tuple[np.ndarray, np.ndarray]:
    """Keys whose score with every query changes by `step` from tile to tile; the noise is much smaller."""
    step = min(1.0, 256.0 / problem.kv_tiles)
    tile = np.arange(problem.kv_len) // problem.block_n
    level = direction * step * (tile - (problem.kv_tiles - 1) / 2)  # around 0, where low precision is finest
    query = np.ones(problem.q_shape, np.float32) + np.float32(0.05) * _normal(rng, problem.q_shape)
    key = np.float32(0.05) * _normal(rng, problem.kv_shape)
    key += (level / np.sqrt(problem.head_dim)).astype(np.float32)[:, None]
    return query, key


_DRAW = {
    "normal": _draw_normal,
    "shared": _draw_normal,
    "growing_max": lambda problem, rng: _draw_ramp(problem, rng, +1),
    "falling_max": lambda problem, rng: _draw_ramp(problem, rng, -1),
    "large": lambda problem, rng: _draw_normal(problem, rng, 16),  # scores of standard deviation 256
    "one_hot": _draw_one_hot,
    "constant": _draw_constant,
}
