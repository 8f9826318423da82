"""The table of kernels that hardware counters were read for."""

from tests.kernels.documents import document
from viz.measure.traffic import kernel_rows


def test_the_table_of_kernels_has_a_row_a_kernel():
    rows = kernel_rows(list(document().counters))
    assert rows["by"] == ["ours", "naive"]
    assert rows["DRAM read"] == ["45 MB", "2.02 GB"]
    assert rows["tensor cores busy"] == ["–", "–"]
