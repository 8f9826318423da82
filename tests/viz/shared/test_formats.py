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

NAN, INF = float("nan"), float("inf")
CASES = {
    format_bytes: {
        0: "0 B",
        999: "999 B",
        1000: "1 kB",
        999_600: "1 MB",
        1_181_696: "1.18 MB",
        68e9: "68 GB",
        2e14: "200 TB",
        2e15: "2,000 TB",
    },
    format_flops: {12: "12 FLOP", 268e6: "268 MFLOP", 989e12: "989 TFLOP", 2e15: "2 PFLOP"},
    format_ms: {
        2.59e-10: "0.000259 ns",
        0.0911: "91.1 µs",
        1.5: "1.5 ms",
        2.5e-4: "250 ns",
        12345.0: "12.3 s",
    },
    format_number: {0.1353: "0.135", -2: "−2", 4.54e-5: "4.54e−05", -INF: "−∞", NAN: "NaN", 12345: "12,300"},
    format_tex: {0.1353: "0.135", 4.54e-5: r"4.54 \cdot 10^{-5}", -INF: r"-\infty", 12345: "12{,}300"},
    format_entry: {0: "0.00", -0.0049: "−0.005", 9.996: "10.0", -123.4: "−123.4", 1234: "1e3", NAN: "NaN"},
    count_tex: {65537: "65{,}537"},
}


@pytest.mark.parametrize("write", CASES, ids=lambda write: write.__name__)
def test_numbers_read_well(write):
    assert [write(value) for value in CASES[write]] == [*CASES[write].values()]


def test_whole_entries_of_matrices_have_no_decimals():
    assert [format_entry(value, True) for value in (1234.0, -2.0, 3e7, -INF)] == ["1,234", "−2", "3e7", "−∞"]


def test_one_of_something_is_not_several():
    assert [format_count(count, "head") for count in (0, 1, 1024)] == ["0 heads", "1 head", "1,024 heads"]
