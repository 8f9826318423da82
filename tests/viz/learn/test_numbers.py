"""What a reader may type: numbers are read, errors name everything else."""

import re

import numpy as np
import pytest

from viz.learn.numbers import UnreadableNumbers, parse_matrix, parse_row


@pytest.mark.parametrize("text", ["3, 2, 5, 1", " 3 2\t5\n1 ", "3;2;5;1", "3.0,2e0,+5,1,", "(3 [2 5 1)"])
def test_a_row_may_be_written_in_many_ways(text):
    assert parse_row(text).tolist() == [3, 2, 5, 1]
    assert parse_row("-1 −2 –3").tolist() == [-1, -2, -3]  # minus signs of a keyboard and of a book


@pytest.mark.parametrize("text", ["1 2; 3 4", "[[1, 2], [3, 4]]", "1,2\n3,4\n", "[1 2] [3 4]"])
def test_a_matrix_may_be_written_in_many_ways(text):
    assert np.array_equal(parse_matrix(text, "A"), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("read", "text", "given"),
    [
        (parse_row, " , ;[] ", "A: “, ;[]” is not accepted. Expected are 1 to 64 numbers"),
        (parse_row, "3, two, 5", "“3, two, 5” is not accepted"),
        (parse_row, "1" + "x" * 500, "…” is not"),
        (parse_row, "nan", "“nan” is not"),
        (
            parse_row,
            "-2e6",
            "Expected are 1 to 64 numbers from -1,000,000 to 1,000,000",
        ),
        (parse_row, "1 " * 10_000, "1 …” is not accepted"),
        (parse_matrix, "", "A: “” is not accepted. Expected are 1 to 8 rows"),
        (parse_matrix, "1 2; 3", "A: “1 2; 3” is not accepted. Expected are 1 to 8 rows of 1 to 8 numbers"),
        (parse_matrix, "1;" * 9, "of the same length"),
        (parse_matrix, "1 " * 9, "A: “1 1 1 1 1 1 1 1 1” is not"),
    ],
)
def test_what_is_neither_is_explained(read, text, given):
    with pytest.raises(UnreadableNumbers, match=re.escape(given)) as caught:
        read(text, "A: " if read is parse_row else "A")
    assert len(str(caught.value)) < 250
