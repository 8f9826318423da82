"""Number formats."""

import pytest

from viz.shared.formats import (
    count_tex,
    format_bytes,
    format_count,
    format_entry,
    format_flops,
    format_ms,
    format_number,
    format_tex,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_600, "1 MB"),
        (1_181_696, "1.18 MB"),
        (68e9, "68 GB"),
        (2e14, "200 TB"),
    ],
)
def test_bytes_read_well(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0911, "91.1 µs"), (1.5, "1.5 ms"), (2.5e-4, "250 ns"), (12345.0, "12.3 s")]
)
def test_times_read_well(value, text):
    assert format_ms(value) == text


@pytest.mark.parametrize(
    ("value", "whole", "text"),
    [
        (0.0, False, "0.00"),
        (-0.0049, False, "−5e−3"),
        (9.996, False, "10.0"),
        (-123.4, False, "−123.4"),
        (1234.0, False, "1e3"),
        (3e-20, False, "3e−20"),
        (1234.0, True, "1,234"),
        (-2.0, True, "−2"),
        (3e7, True, "3e7"),
        (float("nan"), False, "NaN"),
        (float("-inf"), True, "−∞"),
    ],
)
def test_entries_of_matrices_are_short(value, whole, text):
    assert format_entry(value, whole) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1353, "0.135"),
        (-2, "−2"),
        (4.54e-5, "4.54e−05"),
        (float("inf"), "∞"),
        (float("nan"), "NaN"),
        (12345, "12,300"),
    ],
)
def test_numbers_have_three_digits_and_a_minus_sign(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("value", "tex"),
    [(0.1353, "0.135"), (4.54e-5, r"4.54 \cdot 10^{-5}"), (float("-inf"), r"-\infty"), (12345, "12{,}300")],
)
def test_numbers_in_formulas(value, tex):
    assert format_tex(value) == tex


def test_counts_in_formulas_keep_every_digit():
    assert count_tex(65537) == "65{,}537"


@pytest.mark.parametrize(("count", "text"), [(12, "12 FLOP"), (268e6, "268 MFLOP"), (989e12, "989 TFLOP")])
def test_operations_read_well(count, text):
    assert format_flops(count) == text


def test_one_of_something_is_not_several():
    assert [format_count(count, "head") for count in (0, 1, 1024)] == ["0 heads", "1 head", "1,024 heads"]
