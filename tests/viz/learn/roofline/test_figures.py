"""Figures of the roofline chapter: the numbers given are the numbers drawn."""

import re

import pytest

from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from viz.learn.roofline import maths as lesson
from viz.learn.roofline.figures import hierarchy_figure, roofline_figure, times_figure
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)


def drawn(problem, gpu=GPUS["H200"], more=True):
    """The chart of all dots that the chapter can show."""
    steps = {case: lesson.steps(problem, case) for case in lesson.L2_CASES}
    others = lesson.other_operations(problem) if more else ()
    return roofline_figure(gpu, steps, [GPUS["B200"]], theme.LIGHT, others)


def dots(figure):
    return {trace.name: (trace.x[0], trace.y[0]) for trace in figure.data if trace.showlegend is False}


def names(figure):
    """What stands beside each group of dots, without its colours."""
    notes = [note.text for note in figure.layout.annotations if not note.text.startswith("ridge")]
    return [re.sub("<[^>]*>", "", text.replace("<br>", ", ")) for text in notes]


def test_all_dots_lie_on_the_roof_of_the_chosen_gpu():
    gpu = GPUS["A100"]
    points = dots(drawn(PROBLEM, gpu))
    assert len(points) == 8 + 4
    for x, y in points.values():
        assert y == min(gpu.fp16_flops, x * gpu.hbm_bandwidth)
    assert points["fused, perfect"][1] == gpu.fp16_flops > points["fused, none"][1]


@pytest.mark.parametrize(("q_len", "kv_len", "head_dim"), [(1, 1, 16), (1, 65536, 256), (65536, 65536, 256)])
def test_no_dot_lies_beyond_the_axis_is_named_twice_or_left_out(q_len, kv_len, head_dim):
    figure = drawn(AttentionProblem(q_len=q_len, kv_len=kv_len, head_dim=head_dim))
    low, high = (10**end for end in figure.layout.xaxis.range)
    assert all(low < x < high for x, _ in dots(figure).values())
    signs = "".join(names(figure))
    assert (signs.count("●"), signs.count("○"), signs.count("◆")) == (4, 4, 4)


def test_times_and_memories_are_those_of_the_steps_and_gpus():
    gpu, steps = GPUS["H200"], lesson.steps(PROBLEM, "perfect")
    moving, computing = times_figure(gpu, steps, theme.LIGHT).data
    assert list(moving.x) == [step.bytes / gpu.hbm_bandwidth for step in steps]
    assert list(computing.x) == [step.flops / gpu.fp16_flops for step in steps]
    lines = hierarchy_figure(list(GPUS.values()), gpu, theme.LIGHT).data
    for each, line in zip(GPUS.values(), lines, strict=True):
        assert (line.name, list(line.y)) == (each.name, [each.hbm_bytes, each.sram_bytes])
        assert (line.line.dash == "solid") == (each == gpu)
