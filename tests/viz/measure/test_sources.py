"""Origins of numbers: what they are called, and the files they are read from and written to."""

from dataclasses import replace

import pytest

from kernels.measure.document import read_document
from tests.kernels.documents import DEVICE, LENGTHS, VIEW, document, measurement
from viz.measure.sources import Source, file_source, to_document
from viz.shared.formats import plain


def test_the_json_download_is_a_file_that_the_page_takes_back(swept):
    source = Source("recorded", document())
    text = to_document([source], swept).to_json()
    back = read_document(text)
    assert back.measurements == document().measurements
    assert back.ceilings == document().ceilings
    words = "NVIDIA H200, 2026-11-21, torch 2.11.0, Triton 3.6.0, driver 580.1"
    assert file_source(text.encode()).words == plain(words)


def test_a_source_names_the_libraries_that_its_peers_are_from():
    (first, *rest) = document().measurements
    results = tuple(replace(result, version="9.19.0") for result in first.results if result.peer == "naive")
    named = replace(document(), measurements=(replace(first, results=results), *rest))
    assert Source("recorded", named).words.endswith(plain("(torch) 9.19.0"))


@pytest.mark.parametrize("others", [(4096, 8192), (256, *LENGTHS)])
def test_no_curve_is_of_two_devices(others):
    """The device with the most points is shown."""
    other = replace(DEVICE, name="NVIDIA A100")
    more = tuple(replace(measurement(n), device=other) for n in others)
    mixed = Source("file", replace(document(), measurements=(*document().measurements, *more)))
    (xs,) = {tuple(point.x for point in curve.points) for curve in mixed.curves(VIEW)}
    assert xs == max(LENGTHS, others, key=len)
    assert {"H200", "A100,"} <= set(mixed.words.split())
