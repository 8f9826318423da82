"""Sentences of a phase where the keys are split, and where a score is no number."""

import numpy as np
import pytest

from kernels.algorithms import run_traced
from tests.viz.player.runs import GPU
from tests.viz.player.test_figure import FULL, says
from viz.player.data import player_data

pytestmark = pytest.mark.browser


def test_each_part_of_split_keys_starts_anew_and_says_so(run, parts):
    _, data = parts
    first = says(run, data, 3, "row max", 0)  # of the second part
    assert first.startswith("These are the first keys of this part that row 0 sees: its max m starts at −∞")
    assert "Nothing of this part was summed up before" in says(run, data, 3, "rescale", 0)


@pytest.mark.parametrize("column", [0, 1])
def test_the_largest_score_is_that_of_the_numbers_beside_a_nan(run, column):
    trace = run_traced(FULL, "flash2")
    scores = trace.matrices["QK^T"]
    scores[1, 0] = [5.0, 7.0, 1.0, 2.0]
    scores[1, 0, column] = np.nan
    words = says(run, player_data(trace, "here", GPU), 1, "QK^T", 0)
    assert words.endswith(f", with key {4 + 1 - column}, besides 1 that is NaN.")
