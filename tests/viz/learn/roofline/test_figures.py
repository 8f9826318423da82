"""The figure of the roofline chapter: the numbers given are the numbers drawn."""

import pytest

from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from viz.learn.roofline import maths as lesson
from viz.learn.roofline.figures import LOOKS, roofline_figure
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)


def drawn(problem, gpu=GPUS["H200"], more=True):
    """The chart of all dots that the chapter can show."""
    steps = {case: lesson.steps(problem, case) for case in lesson.L2_CASES}
    others = lesson.other_operations(problem) if more else ()
    return roofline_figure(gpu, steps, [GPUS["B200"]], theme.LIGHT, others)


def dots(figure):
    """The dots that are open or filled: name and whether it is open, to x and y."""
    markers = [trace for trace in figure.data if trace.mode == "markers" and trace.x[0] is not None]
    return {(trace.name, "open" in trace.marker.symbol): (trace.x[0], trace.y[0]) for trace in markers}


def test_all_dots_lie_on_the_roof_of_the_chosen_gpu():
    gpu = GPUS["A100"]
    points = dots(drawn(PROBLEM, gpu))
    assert len(points) == 8 + 4
    for x, y in points.values():
        assert y == min(gpu.fp16_flops, x * gpu.hbm_bandwidth)
    assert points["fused", False][1] == gpu.fp16_flops > points["fused", True][1]


@pytest.mark.parametrize(("q_len", "kv_len", "head_dim"), [(1, 1, 16), (1, 65536, 256), (65536, 65536, 256)])
def test_no_dot_lies_beyond_the_axis_is_named_twice_or_left_out(q_len, kv_len, head_dim):
    figure = drawn(AttentionProblem(q_len=q_len, kv_len=kv_len, head_dim=head_dim))
    low, high = (10**end for end in figure.layout.xaxis.range)
    assert all(low < x < high for x, _ in dots(figure).values())
    listed = [trace.name for trace in figure.data if trace.mode == "markers" and trace.showlegend]
    assert sorted(listed) == sorted(LOOKS)
