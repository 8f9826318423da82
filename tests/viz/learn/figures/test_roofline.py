"""Figures of the roofline chapter: the numbers given are the numbers drawn."""

import itertools
import re

import pytest

from kernels.device.gpus import GPUS
from kernels.lessons import roofline as lesson
from kernels.problem import AttentionProblem
from viz.learn.figures.roofline import hierarchy_figure, roofline_figure, times_figure
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)


def test_steps_lie_on_the_roof_of_the_chosen_gpu():
    gpu = GPUS["A100"]
    steps = {case: lesson.steps(PROBLEM, case) for case in lesson.L2_CASES}
    figure = roofline_figure(gpu, steps, [GPUS["B200"]], theme.LIGHT)
    points = {trace.name: (trace.x[0], trace.y[0]) for trace in figure.data if trace.showlegend is False}
    assert len(points) == 8
    for x, y in points.values():
        assert y == min(gpu.fp16_flops, x * gpu.hbm_bandwidth)
    assert points["fused, perfect"][1] == gpu.fp16_flops > points["fused, none"][1]


def test_times_are_bytes_over_bandwidth_and_flops_over_peak():
    gpu, steps = GPUS["H200"], lesson.steps(PROBLEM, "perfect")
    moving, computing = times_figure(gpu, steps, theme.LIGHT).data
    assert list(moving.x) == [step.bytes / gpu.hbm_bandwidth for step in steps]
    assert list(computing.x) == [step.flops / gpu.fp16_flops for step in steps]


@pytest.mark.parametrize("name", GPUS)
def test_the_hierarchy_has_hbm_and_sram_of_every_gpu_and_marks_one(name):
    figure = hierarchy_figure(list(GPUS.values()), GPUS[name], theme.LIGHT)
    lines = {trace.name: trace for trace in figure.data}
    assert list(lines) == [gpu.name for gpu in GPUS.values()]
    assert list(lines[GPUS[name].name].y) == [GPUS[name].hbm_bytes, GPUS[name].sram_bytes]
    assert [trace.name for trace in figure.data if trace.line.dash == "solid"] == [GPUS[name].name]


def test_operations_beside_attention_lie_on_the_roof_too():
    gpu, more = GPUS["A100"], lesson.other_operations(PROBLEM)
    figure = roofline_figure(gpu, {}, [], theme.LIGHT, more)
    points = {trace.name: (trace.x[0], trace.y[0]) for trace in figure.data if trace.showlegend is False}
    assert list(points) == [step.name for step in more]
    for x, y in points.values():
        assert y == min(gpu.fp16_flops, x * gpu.hbm_bandwidth)


def test_no_point_of_the_chapter_lies_beyond_the_axis():
    gpu = GPUS["H200"]
    for q_len, kv_len, head_dim in itertools.product((1, 65536), (1, 65536), (16, 256)):
        problem = AttentionProblem(q_len=q_len, kv_len=kv_len, head_dim=head_dim)
        steps = {case: lesson.steps(problem, case) for case in lesson.L2_CASES}
        figure = roofline_figure(gpu, steps, [], theme.LIGHT, lesson.other_operations(problem))
        low, high = (10**end for end in figure.layout.xaxis.range)
        points = [trace.x[0] for trace in figure.data if trace.showlegend is False]
        assert low < min(points)
        assert max(points) < high


def named(problem, gpu=GPUS["H200"], more=()):
    """What stands beside each group of dots, without its colours: place on the axis -> lines."""
    steps = {case: lesson.steps(problem, case) for case in lesson.L2_CASES}
    notes = roofline_figure(gpu, steps, [], theme.LIGHT, more).layout.annotations
    return {
        10**note.x: [re.sub("<[^>]*>", "", line) for line in note.text.split("<br>")]
        for note in notes
        if not note.text.startswith("ridge")
    }


def test_every_dot_has_its_name_beside_it_also_where_dots_lie_on_each_other():
    """On the default shape S and O, at least, and the fused kernel, requested, are nearly the same."""
    names = list(named(PROBLEM).values())
    assert names == [
        ["●○ softmax"],
        ["○ S = QKᵀ", "○ O = PV"],
        ["● S = QKᵀ", "● O = PV", "○ fused"],
        ["● fused"],
    ]


@pytest.mark.parametrize(("q_len", "kv_len"), [(1, 1), (1, 4096), (1024, 1024), (65536, 65536)])
def test_no_dot_is_named_twice_or_left_out(q_len, kv_len):
    problem = PROBLEM.with_(q_len=q_len, kv_len=kv_len)
    more = lesson.other_operations(problem)
    signs = "".join(line.split(" ")[0] for lines in named(problem, more=more).values() for line in lines)
    assert (signs.count("●"), signs.count("○"), signs.count("◆")) == (4, 4, len(more))
    assert any("plain product" in line for lines in named(problem, more=more).values() for line in lines)
