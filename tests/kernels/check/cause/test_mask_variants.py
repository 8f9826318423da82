"""Masks that a kernel may have taken for the right one: the words of each say what the mask shows."""

import pytest
import torch

from kernels.check.cause.variants import mask_variants
from kernels.problem import Band

CPU = torch.device("cpu")
WINDOW_TOP_LEFT = "attention with the window aligned to the top left"
CAUSAL_TOP_LEFT = "attention with the causal mask aligned to the top left"
CAUSAL_BOTTOM_RIGHT = "attention with the causal mask aligned to the bottom right"
CAUSAL = "causal attention without a window"
NO_LEFT = "attention without the window's left side"
NO_RIGHT = "attention without the window's right side: no query sees a key after its diagonal"
NAMED = {WINDOW_TOP_LEFT, CAUSAL_TOP_LEFT, CAUSAL_BOTTOM_RIGHT, CAUSAL, NO_LEFT, NO_RIGHT}


def keys_seen(band, row):
    """By words of NAMED: the first key that the row sees, and the last."""
    found = {}
    for words, visible in mask_variants(band, CPU):
        if words in NAMED:
            seen = visible[row].nonzero().flatten().tolist()
            assert words not in found
            assert seen == list(range(seen[0], seen[-1] + 1))
            found[words] = (seen[0], seen[-1])
    return found


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (8, 3, {WINDOW_TOP_LEFT: (12, 23), CAUSAL: (0, 44), NO_LEFT: (0, 47), NO_RIGHT: (36, 44)}),
        (8, 0, {WINDOW_TOP_LEFT: (12, 20), CAUSAL: (0, 44)}),
        (8, None, {WINDOW_TOP_LEFT: (12, 63), CAUSAL: (0, 44)}),
        (None, 3, {WINDOW_TOP_LEFT: (0, 23), NO_RIGHT: (0, 44)}),
        (None, 0, {CAUSAL_TOP_LEFT: (0, 20)}),
        (None, 40 - 64, {CAUSAL_BOTTOM_RIGHT: (0, 44)}),  # a kernel that declares the top left
        (None, None, {}),
    ],
)
def test_the_words_of_a_mask_say_what_it_shows(left, right, expected):
    """Row 20 of 40 queries and 64 keys has its diagonal at key 44, or at key 20 from the top left."""
    assert keys_seen(Band.of(40, 64, left, right), 20) == expected


def test_with_equal_lengths_both_corners_are_the_same():
    assert keys_seen(Band.of(40, 40, 8, 3), 20) == {CAUSAL: (0, 20), NO_LEFT: (0, 23), NO_RIGHT: (12, 20)}
    assert keys_seen(Band.of(40, 40, None, 0), 20) == {}
