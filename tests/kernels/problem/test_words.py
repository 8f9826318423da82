"""Inputs "text": words become tokens, and attention finds what its words are made to find."""

import numpy as np
import pytest

from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import draw_inputs
from kernels.problem.words import FIRST_TOKEN, LONGEST, tokens_of, words_of

TEXT = AttentionProblem(q_len=64, kv_len=64, head_dim=32, mask="causal", inputs="text")


def weights(problem, query, key):
    """Attention of one head, in float64."""
    scores = query.astype(float) @ key.astype(float).T * problem.scale
    scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def test_words_and_signs_are_tokens_after_the_first_one_and_begin_again_at_their_end():
    problem = TEXT.with_(text="Is it exact? It is.", q_len=10, kv_len=10)
    assert tokens_of(problem) == [FIRST_TOKEN, "Is", "it", "exact", "?", "It", "is", ".", "Is", "it"]
    rows, keys = words_of(problem.with_(q_len=2))
    assert (rows, keys) == (["Is", "it"], tokens_of(problem))  # the last queries, as a causal mask has them
    assert len(tokens_of(problem.with_(text=" \n"))) == 10


def test_a_word_is_the_same_vector_wherever_it_stands_and_however_it_is_written():
    long = TEXT.with_(text="red green blue green RED", head_dim=256)
    _, key, _ = draw_inputs(long)
    query, _, value = draw_inputs(long)
    red, green, again = value[0, 0, [1, 2, 5]]
    assert np.corrcoef(red, again)[0, 1] > 0.8 > np.corrcoef(red, green)[0, 1]
    assert query.shape == key.shape == (1, 1, 64, 256)


def test_attention_finds_the_first_token_the_near_past_and_earlier_uses():
    query, key, _ = draw_inputs(TEXT)
    found = weights(TEXT, query[0, 0], key[0, 0])
    rows = np.arange(8, 64)
    assert found[rows, 0].mean() > 0.05  # of up to 64 keys
    assert found[rows, rows - 1].mean() > 2 * found[rows, rows // 2].mean()
    assert np.sort(found[rows], axis=1)[:, -3:].sum(axis=1).mean() > 0.4  # few keys hold most of it


def test_the_text_and_the_seed_make_the_numbers_and_heads_differ():
    first = draw_inputs(TEXT.with_(q_heads=2, kv_heads=1))
    same = draw_inputs(TEXT.with_(q_heads=2, kv_heads=1))
    assert all(np.array_equal(one, other) for one, other in zip(first, same, strict=True))
    assert not np.array_equal(first[0][0, 0], first[0][0, 1])
    for other in (TEXT.with_(seed=1), TEXT.with_(text="another sentence")):
        assert not np.array_equal(draw_inputs(other)[1], draw_inputs(TEXT)[1])


@pytest.mark.parametrize("text", ["x" * (LONGEST + 1), 3])
def test_what_is_no_text_or_too_long_is_refused(text):
    with pytest.raises(InvalidProblem, match=r"text=.*expected a text of at most 2000 characters"):
        TEXT.with_(text=text)
