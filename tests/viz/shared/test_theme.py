"""Colours that stand out from their background, and from each other by lightness alone."""

import numpy as np
import pytest

from viz.shared import theme

both = pytest.mark.parametrize("colors", [theme.LIGHT, theme.DARK], ids=["light", "dark"])


def luminance(color):
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@both
def test_text_and_marks_stand_out_from_the_background(colors):
    """WCAG 2: 4.5:1 for text, 3:1 for marks."""
    for background in (colors.background, colors.surface):
        assert contrast(colors.text, background) >= 7
        assert contrast(colors.muted, background) >= 4.5
        for name in ("query", "key", "value", "output", "state", "now", "good", "bad"):
            assert contrast(getattr(colors, name), background) >= 4.5, name  # their letters are in it
        for name in ("flash", "standard", "cold", "warm"):
            assert contrast(getattr(colors, name), background) >= 3, name


@both
def test_states_of_a_tile_differ_in_lightness(colors):
    """What is worked on has a frame of `now` between lines of the background; a visited tile is filled."""
    assert contrast(colors.now, colors.background) >= 4.5
    assert contrast(colors.plain, colors.background) >= 1.6
    assert contrast(colors.scale[0], colors.background) < 1.3  # a weight of 0 is nothing
    assert contrast(colors.scale[0], colors.scale[-1]) >= 5


@both
def test_the_scale_of_weights_leads_from_the_background_all_the_way(colors):
    steps = [contrast(color, colors.background) for color in colors.scale]
    assert steps == sorted(steps)


def test_a_gradient_has_the_colour_of_its_tensor():
    assert theme.tensor_entry("dV") == theme.tensor_entry("V") == "value"
