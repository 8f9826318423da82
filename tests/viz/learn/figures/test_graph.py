"""Graphs as images: what is drawn, in which direction, and that a name cannot break the drawing."""

import base64
import re
from xml.etree import ElementTree

import pytest

from kernels.lessons.gradients import GradientLesson
from kernels.problem import AttentionProblem
from viz.learn.gradient_graphs import layer_graph_html, two_tokens_html
from viz.shared import theme

SVG = "{http://www.w3.org/2000/svg}"
PROBLEM = AttentionProblem(q_len=128, kv_len=128, head_dim=32)


def drawing(html):
    """The parsed SVG of an image."""
    return ElementTree.fromstring(base64.b64decode(re.search(r"base64,([^\"]+)", html)[1]))


def texts(svg):
    return [element.text for element in svg.iter(f"{SVG}text")]


@pytest.mark.parametrize("colors", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_the_layer_is_drawn_both_ways_with_its_bytes(colors):
    forward, backward = (drawing(layer_graph_html(PROBLEM, way, colors)) for way in (False, True))
    assert {"Z", "Q", "K", "V", "S", "P", "O", "Z_out"} <= set(texts(forward))
    assert {"dZ", "dQ", "dZ_out"} <= set(texts(backward))
    for svg in (forward, backward):
        assert texts(svg).count("8.19 kB") == 7
        assert texts(svg).count("32.8 kB") == 2
    first = [float(next(svg.iter(f"{SVG}line")).get("x1")) for svg in (forward, backward)]
    second = [float(next(svg.iter(f"{SVG}line")).get("x2")) for svg in (forward, backward)]
    assert first[0] < second[0]
    assert first[1] > second[1]


def test_two_tokens_have_two_paths_each():
    of_value, of_score = map(drawing, two_tokens_html(GradientLesson(seed=4), theme.LIGHT))
    assert len(list(of_value.iter(f"{SVG}line"))) == 10
    assert len(list(of_score.iter(f"{SVG}line"))) == 4
    marked = [line for line in of_value.iter(f"{SVG}line") if line.get("stroke") == theme.LIGHT.now]
    assert len(marked) == 4
