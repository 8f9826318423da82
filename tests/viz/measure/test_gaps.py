"""What the charts say that they lack."""

from dataclasses import replace

import pytest

from kernels.measure.roofline import timed_points
from kernels.measure.series import SweepView
from tests.kernels.documents import DEVICE, document, measurement
from viz.measure.controls import ONE_POINT, Choice
from viz.measure.gaps import device_words, gap_words, unmarked_words
from viz.measure.sources import Source
from viz.shared.figures.sweep import peer_label

VIEW = SweepView("length", 1024, 64, "float16", "full", q_heads=4)
CHOICE = Choice(VIEW, "length", (512,), ("forward", "backward"), ("naive", "ours", "sdpa", "flex"))
RECORDED = Source("recorded", document())
OURS = peer_label("ours")


def words(source, metric="time", direction="forward", choice=CHOICE):
    return gap_words([source], source.curves(VIEW), choice, metric, direction).replace("\\", "")


def test_a_chosen_peer_without_a_curve_is_named_if_the_device_could_have_run_it():
    assert words(RECORDED) == "Not measured (recorded): FlexAttention."
    assert words(RECORDED, choice=replace(CHOICE, peers=("naive", "ours"))) == ""
    assert words(RECORDED, choice=replace(CHOICE, peers=("naive", "sdpa"))) == ""


def without_ours(at):
    kept = [
        replace(each, results=each.results[:1]) if each.problem.q_len in at else each
        for each in document().measurements
    ]
    return Source("recorded", replace(document(), measurements=tuple(kept)))


def test_a_peer_without_some_of_the_points_is_named_with_them():
    assert words(without_ours((512, 2048))) == f"Not measured (recorded): FlexAttention; {OURS} at 512, 2k."
    assert words(without_ours((512, 1024, 2048, 4096))) == f"Not measured (recorded): {OURS}; FlexAttention."


def test_points_of_peers_that_were_not_chosen_count():
    source = without_ours((512, 2048))
    curves = [curve for curve in source.curves(VIEW) if curve.peer == "ours"]
    alone = replace(CHOICE, peers=("ours",))
    found = gap_words([source], curves, alone, "time", "forward").replace("\\", "")
    assert found == f"Not measured (recorded): {OURS} at 512, 2k."
    at_one = replace(alone, axis=ONE_POINT)
    assert gap_words([source], curves, at_one, "time", "forward") == ""  # at length 1024 it was measured


def test_a_refused_point_is_a_result():
    assert "naive" not in words(RECORDED)  # which ran out of memory at 4k


def test_a_direction_without_anything_is_named():
    assert words(RECORDED, direction="backward") == "Not measured (recorded): anything backward."
    assert gap_words([Source("measured", document())], [], CHOICE, "time", "forward") == ""


def test_call_times_that_an_older_recording_lacks_are_named():
    first = document().measurements[0]
    called = replace(first, results=tuple(replace(each, call_ms=1.0) for each in first.results))
    source = Source("recorded", replace(document(), measurements=(called, *document().measurements[1:])))
    expected = f"FlexAttention; naive (torch) at 1k, 2k; {OURS} at 1k, 2k, 4k."
    assert words(source, "call") == f"No call time (recorded): {expected}"
    assert words(source, "time") == "Not measured (recorded): FlexAttention."


@pytest.mark.parametrize(
    ("directions", "expected"),
    [(("forward",), "FlexAttention."), (("forward", "backward"), "FlexAttention; naive (torch) backward; ")],
)
def test_a_peer_without_a_mark_under_the_roof_is_named(directions, expected):
    choice = replace(CHOICE, directions=directions)
    points = timed_points(measurement(512), directions)
    found = unmarked_words(RECORDED, points, choice).replace("\\", "")
    label = "FlexAttention forward" if len(directions) > 1 else "FlexAttention"
    assert found.startswith("Without a mark, because not timed on the problem shown: ")
    assert expected.replace("FlexAttention", label, 1) in found
    assert "naive (torch) forward" not in found


def test_every_chosen_peer_with_a_mark_needs_no_words():
    choice = replace(CHOICE, directions=("forward",), peers=("naive", "ours"))
    assert unmarked_words(RECORDED, timed_points(measurement(512), ("forward",)), choice) == ""
    assert RECORDED.device == DEVICE


def test_the_device_is_named_if_a_document_has_several():
    other = replace(measurement(8192), device=replace(DEVICE, name="NVIDIA A100"))
    source = Source("file", replace(document(), measurements=(other, *document().measurements)))
    assert device_words([source], source.curves(VIEW)) == "The numbers of file are those of NVIDIA H200."
    assert device_words([RECORDED], RECORDED.curves(VIEW)) == ""
