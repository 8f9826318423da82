"""Numbers as the script writes them, held against Python."""

import math
import random

import pytest

from viz.shared import formats

pytestmark = pytest.mark.browser


def test_numbers_are_written_as_python_writes_them(run):
    generator = random.Random(0)
    numbers = [0.0, 1.0, 0.999, 0.9996, 999.4, 999.6, 1e6, 123456.7, 1e-3, 9.99e-4, 5e9, 1e15]
    numbers += [generator.uniform(1, 10) * 10.0 ** generator.randint(-9, 15) for _ in range(500)]
    signed = [*numbers, *(-number for number in numbers)]
    given = {"numbers": numbers, "signed": signed}
    written = run("given.signed.map((n) => [formats.formatNumber(n), formats.formatNumber(n, 2)])", given)
    assert written == [[formats.format_number(n), formats.format_number(n, 2)] for n in signed]
    given = {"numbers": [number for number in numbers if number >= 1 or number == 0]}
    for name, python in (
        ("formatBytes", formats.format_bytes),
        ("formatKib", formats.format_kib),
        ("formatMs", formats.format_ms),
    ):
        written = run(f"given.numbers.map((n) => formats.{name}(n))", given)
        assert written == [python(number) for number in given["numbers"]], name
    written = run("given.numbers.map((n) => formats.formatMs(n))", {"numbers": numbers})
    assert written == [formats.format_ms(number) for number in numbers]


def test_words_become_the_same_name_of_a_file(run):
    words = ["FlashAttention-2, 1024 × 1024, head_dim 64, window", " a  b/c. ", "A against B step 3 / 9"]
    names = run("given.map(formats.fileName)", words)
    assert names == [formats.file_name(each) for each in words]
    assert names[0] == "flashattention-2-1024x1024-head-dim-64-window"


def test_what_is_not_a_number_is_written_as_python_writes_it(run):
    words = run("[NaN, Infinity, -Infinity].map((n) => formats.formatNumber(n))")
    assert words == [formats.format_number(n) for n in (math.nan, math.inf, -math.inf)]
