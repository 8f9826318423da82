"""What a reader may type: numbers are read, errors name everything else."""

import numpy as np
import pytest

from kernels.lessons.numbers import UnreadableNumbers, parse_matrix, parse_row


@pytest.mark.parametrize(
    "text", ["3, 2, 5, 1", "[3, 2, 5, 1]", " 3 2\t5\n1 ", "3;2;5;1", "3.0,2e0,+5,1,", "(3 2 5 1)"]
)
def test_a_row_may_be_written_in_many_ways(text):
    assert parse_row(text).tolist() == [3, 2, 5, 1]


def test_minus_signs_of_a_keyboard_and_of_a_book():
    assert parse_row("-1 −2 –3").tolist() == [-1, -2, -3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No number given"),
        ("", "No number given. Accepted are 1 to 64 numbers"),
        (" , ;[] ", "No number given"),
        ("3, two, 5", "“two” is not a number"),
        ("1" + "x" * 500, "…” is not a number"),
        ("1 inf", "“inf” is not accepted: give finite numbers"),
        ("nan", "“nan” is not accepted"),
        ("1e400", "“1e400” is not accepted"),
        ("-2e6", "“-2e6” is not accepted: give finite numbers from -1,000,000 to 1,000,000"),
        ("1 " * 10_000, "10,000 numbers given. Accepted are 1 to 64 numbers: leave some out"),
        ("<b>3</b>", "“<b>3</b>” is not a number"),
        ("三", "“三” is not a number"),
    ],
)
def test_what_is_not_a_row_is_explained(text, message):
    with pytest.raises(UnreadableNumbers) as caught:
        parse_row(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", ["1 2; 3 4", "[[1, 2], [3, 4]]", "1,2\n3,4\n", "[1 2] [3 4]"])
def test_a_matrix_may_be_written_in_many_ways(text):
    assert np.array_equal(parse_matrix(text, "A"), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "A is empty. Accepted are up to 8 rows of up to 8 numbers"),
        ("1 2; 3", "A: row 0 has length 2 and row 1 has length 1"),
        ("1 2; 3 x", "A: “x” is not a number"),
        ("1;" * 9, "A has 9 rows"),
        ("1 " * 9, "A: 9 numbers given. Accepted are 1 to 8 numbers per row"),
    ],
)
def test_what_is_not_a_matrix_is_explained(text, message):
    with pytest.raises(UnreadableNumbers) as caught:
        parse_matrix(text, "A")
    assert message in str(caught.value)
