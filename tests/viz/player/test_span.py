"""The part of the time axis of the lanes that is seen."""

import pytest

pytestmark = pytest.mark.browser


def test_the_seen_span_stays_within_the_run_and_zooms_about_a_time(run):
    script = """(() => {
      const seen = new span.Span(1000);
      seen.zoom(0.5, 250);
      const zoomed = [seen.from, seen.to];
      seen.pan(5000);
      const panned = [seen.from, seen.to];
      seen.reveal(10, 20);
      const revealed = seen.from <= 10 && seen.to >= 20;
      seen.zoom(100);
      return { zoomed, panned, revealed, all: [seen.from, seen.to] };
    })()"""
    got = run(script)
    assert got == {"zoomed": [125, 625], "panned": [500, 1000], "revealed": True, "all": [0, 1000]}


@pytest.mark.parametrize(("begin", "end"), [(0, 100), (500, 2600), (9000, 9700)])
def test_what_is_asked_for_is_seen_whole_and_fills_most_of_the_view(run, begin, end):
    """Blocks stay marked for long at the start of a run: a view three times as long would hide the zoom."""
    script = """(() => {
      const seen = new span.Span(10000);
      seen.show(...given);
      return [seen.from, seen.to];
    })()"""
    start, stop = run(script, [begin, end])
    assert start <= begin < end <= stop
    assert end - begin > 0.8 * (stop - start)
