"""What the page says of a choice: the problems of each source, and the chosen peers that it lacks."""

from dataclasses import replace

from kernels.measure.series import SweepView, peer_curves
from tests.kernels.documents import document, measurement
from viz.measure.controls import Choice
from viz.measure.sources import Source
from viz.measure.words import missing_peers, problem_lines

VIEW = SweepView("head_dim", 1024, 64, "float16", "full", q_heads=4)
CHOICE = Choice(VIEW, "head_dim", (64, 128), ("forward",), ("naive", "ours", "sdpa", "flex"))


def test_what_a_chart_holds_fixed_is_true_of_all_its_points():
    same_heads = [measurement(1024, head_dim=d, heads=4) for d in (64, 128)]
    same_width = [measurement(1024, head_dim=d, heads=256 // d) for d in (64, 128)]
    lines = [
        problem_lines(peer_curves("file", measured, VIEW), CHOICE, None)
        for measured in (same_heads, same_width)
    ]
    assert "head_dim 64 to 128, length 1k, full, float16, batch 1, 4 heads" in lines[0]
    assert "1,024 tokens per launch, heads × head_dim = 256" in lines[1]


def test_a_measurement_here_has_a_line_of_its_own_with_its_own_type():
    curves = peer_curves("recorded", [measurement(1024)], VIEW)
    recorded, here = problem_lines(curves, CHOICE, "float32").splitlines()
    assert "head_dim 64, length 1k, full, float16" in recorded
    assert "head_dim 64 to 128, length 1k, full, float32, batch 1, 4 heads" in here


def test_a_chosen_peer_that_is_not_drawn_is_named_if_the_device_could_have_run_it():
    source, drawn = Source("recorded", document()), {("naive", "forward"), ("ours", "forward")}
    assert missing_peers(source, drawn, CHOICE) == "FlexAttention"  # sdpa is of a CPU
    assert missing_peers(source, drawn, replace(CHOICE, peers=("naive", "ours"))) == ""
    both = replace(CHOICE, peers=("naive",), directions=("forward", "backward"))
    assert missing_peers(source, drawn, both) == "naive (torch) backward"
