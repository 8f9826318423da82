"""Inputs "text": a sentence becomes tokens, and tokens become query, key and value.

No trained model is in it. Every word has a random vector, drawn from its letters and the seed; what follows
from query, key and value is computed like everything else. So that the attention has a shape worth looking
at, they are made as a head of a small language model behaves: words find their own earlier uses and what came
after them, rotary positions find the near past, and short words lean on the first token.
"""

import re
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kernels.problem.attention_problem import AttentionProblem

LONGEST = 2000
"""Characters of a text."""
FIRST_TOKEN = "<s>"
DEFAULT_TEXT = (
    "The chip is small and fast ; the memory is large and slow . So the chip asks the memory for a tile of "
    "keys , compares , adds up , and forgets the tile . The memory never sees the scores ; the scores never "
    "leave the chip . What the chip keeps is small : one maximum , one sum ."
)
TOKEN = re.compile(r"\w+|[^\w\s]")
SHORT = 3
"""Letters of a word that leans on the first token."""


def words_in(text: str) -> list[str]:
    """The words and signs of a text; of the default one for none."""
    return TOKEN.findall(text or DEFAULT_TEXT) or ["."]


def tokens_of(problem: "AttentionProblem") -> list[str]:
    """The words of the keys and of the queries: the first token, then the text, from its start if it ends."""
    words = words_in(problem.text)
    length = max(problem.q_len, problem.kv_len)
    repeated = words * (-(-length // len(words)))
    return [FIRST_TOKEN, *repeated][:length]


def words_of(problem: "AttentionProblem") -> tuple[list[str], list[str]]:
    """(words of the queries, words of the keys), bottom right aligned as the causal mask is."""
    tokens = tokens_of(problem)
    return tokens[-problem.q_len :], tokens[-problem.kv_len :]


def draw_text(problem: "AttentionProblem") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """float32 query, key and value, in their shapes, for inputs "text"."""
    tokens = tokens_of(problem)
    per_head = [[_head(problem, tokens, b, h) for h in range(problem.q_heads)] for b in range(problem.batch)]
    query = np.array([[q[-problem.q_len :] for q, _, _ in heads] for heads in per_head])
    own = [heads[:: problem.group_size] for heads in per_head]  # a key head is that of its first query head
    key = np.array([[k[-problem.kv_len :] for _, k, _ in heads] for heads in own])
    value = np.array([[v[-problem.kv_len :] for _, _, v in heads] for heads in own])
    return query.astype(np.float32), key.astype(np.float32), value.astype(np.float32)


def _head(
    problem: "AttentionProblem", tokens: list[str], batch: int, head: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """float64 (tokens, head_dim) query, key and value of one head."""
    width = problem.head_dim
    rotary = 2 * (width // 4)
    of_words = width - rotary - 2
    seeds = (problem.seed, batch, head // problem.group_size)
    known = {token: _vector(token, of_words, seeds) for token in set(tokens)}
    word = np.stack([known[token] for token in tokens])
    before = np.vstack([np.zeros(of_words), word[:-1]])
    leans = np.array([len(token) <= SHORT for token in tokens])[:, None]
    strength = (width / 32) ** 0.25  # scores are divided by the root of width
    near = _rotary(rotary, np.arange(len(tokens)))
    query = [word * np.where(leans, 3.0, 4.9), _rotary(rotary, np.arange(len(tokens)) - 1.4) * 1.4]
    key = [(0.52 * word + 0.88 * before) * np.where(leans, 3.2, 4.9), near * 1.4]
    sink = np.zeros((len(tokens), 2))
    sink[0, 0] = 5.6
    asks = np.hstack([np.where(leans, 3.5, 2.8), np.full_like(leans, 0.2, dtype=float)])
    noise = np.random.default_rng((*seeds, head)).normal(size=(3, len(tokens), width))
    mixed = np.random.default_rng((*seeds, 1 << 20)).normal(size=(of_words, width)) * 0.9
    return (
        strength * (np.hstack([*query, asks]) + 0.22 * noise[0]),
        strength * (np.hstack([*key, sink]) + 0.22 * noise[1]),
        word @ mixed + 0.25 * noise[2],
    )


def _vector(token: str, size: int, seeds: tuple[int, ...]) -> np.ndarray:
    """The unit vector of a word, whatever its case."""
    letters = zlib.crc32(token.lower().encode())
    vector = np.random.default_rng((*seeds, letters)).normal(size=size)
    return vector / np.linalg.norm(vector)


def _rotary(size: int, positions: np.ndarray) -> np.ndarray:
    """(positions, size): cosines and sines; their dot product depends on the distance of two positions."""
    frequencies = 6.0 ** (-np.arange(size // 2) * 8 / (3 * (size // 2)))
    angles = positions[:, None] * frequencies
    return np.hstack([np.cos(angles), np.sin(angles)]) * np.sqrt(16 / size)
