"""8-bit rounding against torch's own type, and what scales and rotations do to the error."""

import numpy as np
import pytest
import torch

from kernels.lessons import low_precision
from kernels.lessons.low_precision import OutlierInputs, compare, quantize, random_rotation, round_e4m3

INPUTS = OutlierInputs(length=256, head_dim=64, outlier_share=0.01, outlier_size=30.0, heads=2)


def test_rounding_is_that_of_torchs_float8():
    numbers = np.concatenate(
        [
            np.linspace(-448, 448, 20001),
            np.random.default_rng(0).standard_normal(20000),
            2.0 ** np.arange(-14, 9),
            [0.0],
        ]
    )
    numbers = numbers.astype(np.float32)
    expected = torch.from_numpy(numbers).to(torch.float8_e4m3fn).double().numpy()
    assert np.array_equal(round_e4m3(numbers.astype(np.float64)), expected)


def test_every_number_of_the_format_is_kept_and_what_lies_beyond_saturates():
    numbers = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).double().numpy()
    numbers = numbers[np.isfinite(numbers)]
    assert np.array_equal(round_e4m3(numbers), numbers)
    assert round_e4m3(np.array([1e9, -500.0])).tolist() == [448.0, -448.0]


def test_a_block_with_small_numbers_keeps_them():
    matrix = np.full((1, 128, 16), 1e-6)
    matrix[0, :64] = 448.0
    assert not quantize(matrix, None)[0, 64:].any()
    np.testing.assert_allclose(quantize(matrix, 64), matrix, rtol=1e-12)
    assert not quantize(np.zeros((1, 100, 16)), 64).any()


@pytest.mark.parametrize("head_dim", low_precision.HEAD_DIMS)
def test_the_rotation_keeps_every_score(head_dim):
    rotation = random_rotation(head_dim, 3)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(head_dim), atol=1e-12)
    assert np.unique(np.abs(rotation).round(12)).size == 1


def test_outliers_are_drawn_as_often_and_as_large_as_asked():
    query, key, value = OutlierInputs(length=1024, outlier_share=0.01, outlier_size=100.0).draw()
    assert query.shape == key.shape == value.shape == (4, 1024, 64)
    assert 0.005 < (np.abs(query) > 8).mean() < 0.0105
    assert not (np.abs(OutlierInputs(outlier_share=0.0).draw()[0]) > 8).any()


def test_rotating_lowers_the_error_of_inputs_with_outliers_and_float16_has_far_less():
    by_label = {result.label: result.rmse for result in compare(INPUTS, 64)}
    assert list(by_label) == [
        "float16",
        "e4m3, one scale per tensor",
        "e4m3, one scale per block",
        "e4m3, one scale per tensor, rotated",
        "e4m3, one scale per block, rotated",
    ]
    assert by_label["e4m3, one scale per tensor, rotated"] < by_label["e4m3, one scale per tensor"]
    assert by_label["float16"] < by_label["e4m3, one scale per block, rotated"] / 20


def test_the_loudest_row_is_spread_out():
    row, before, after = low_precision.loudest_row(INPUTS)
    assert np.abs(before).max() == np.abs(INPUTS.draw()[1][0]).max()
    assert np.abs(after).max() < np.abs(before).max() / 2
    np.testing.assert_allclose(np.linalg.norm(after), np.linalg.norm(before))
    assert 0 <= row < INPUTS.length
