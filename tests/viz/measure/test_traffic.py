"""Words beside the four totals, and the table of kernels that hardware counters were read for."""

import pytest

from kernels.measure.four_numbers import four_totals
from tests.kernels.documents import counter_run
from viz.measure.traffic import share_words


@pytest.mark.parametrize(
    ("dram", "share", "ratio"), [(60e6, "90%", "1.8×"), (10e6, "98%", "0.3×"), (900e6, None, "27×")]
)
def test_dram_bytes_are_compared_with_requested_and_compulsory_ones(dram, share, ratio):
    run = counter_run(dram=dram)
    totals = four_totals(run)
    words = share_words(totals, run)
    assert ratio in words
    assert f"**{share}**" in words if share else "%" not in words
