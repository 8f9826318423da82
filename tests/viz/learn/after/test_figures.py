"""Charts of the last chapter, on the numbers of its maths."""

from viz.learn.after import figures
from viz.learn.after.maths import tile_clocks


def test_overlapped_clocks_end_at_the_unit_that_sets_the_limit(colors):
    bars = figures.clocks_figure(tile_clocks(32), colors).data
    assert [bar.name for bar in bars] == list(figures.UNIT_LOOKS)
    overlapped = {bar.name: bar.x[1::2] for bar in bars}
    assert list(overlapped["tensor cores"]) == [1024, None, None]
    assert list(overlapped["exponentials"]) == [None, 1024, 1024]
