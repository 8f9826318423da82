"""Words beside the four totals, and the table of kernels that hardware counters were read for."""

import pytest

from kernels.measure.four_numbers import our_traffic, standard_traffic
from tests.kernels.documents import counter_run, document
from viz.measure.traffic import kernel_rows, total_words


def test_the_table_of_kernels_has_a_row_per_kernel():
    rows = kernel_rows(list(document().counters))
    assert rows["by"] == ["our kernels, tiles tuned for a full GPU", "naive (torch)"]
    assert rows["DRAM read"] == ["45 MB", "2.02 GB"]
    assert rows["tensor cores busy"] == ["–", "–"]


@pytest.mark.parametrize(
    ("dram", "said", "not_said"),
    [
        (60e6, ["the caches served **90%**", "1.8× the compulsory bytes"], "more than was requested"),
        (10e6, ["the caches served **98%**", "less than the compulsory bytes"], "more than was requested"),
        (900e6, ["It also moved more than was requested"], "caches served"),
    ],
)
def test_dram_bytes_are_compared_with_requested_and_compulsory_ones(dram, said, not_said):
    run = counter_run(dram=dram)
    words = total_words("Our kernels", our_traffic(run.problem, "forward", run.counted, run), run)
    assert all(part in words for part in said)
    assert not_said not in words


def test_without_counters_it_says_how_to_read_them():
    totals = standard_traffic(counter_run().problem, "forward", (), None)
    assert "kernels.record --parts counters" in total_words("Standard attention", totals, None)
