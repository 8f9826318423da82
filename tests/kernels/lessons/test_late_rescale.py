"""Late rescaling gives the same output with fewer rescales; the polynomial is close to 2^x; clocks."""

import numpy as np
import pytest

from kernels.device.gpus import GPUS
from kernels.lessons import late_rescale, units
from kernels.problem import AttentionProblem

PROBLEM = AttentionProblem(q_len=32, kv_len=512, head_dim=16, block_m=16, block_n=32, inputs="growing_max")


@pytest.mark.parametrize("inputs", ["normal", "growing_max", "falling_max", "large"])
@pytest.mark.parametrize("threshold", late_rescale.THRESHOLDS)
def test_no_threshold_changes_the_output(inputs, threshold):
    result = late_rescale.late_rescale(PROBLEM.with_(inputs=inputs), threshold)
    assert result.largest_error < 1e-12
    assert result.largest_weight <= 2.0**threshold * (1 + 1e-12)


def test_a_max_that_grows_at_every_tile_is_rescaled_ever_more_rarely():
    rescales = [
        late_rescale.late_rescale(PROBLEM, threshold).rescales for threshold in late_rescale.THRESHOLDS
    ]
    assert rescales[0] == 32 * 15
    assert rescales == sorted(rescales, reverse=True)
    assert rescales[-1] < rescales[0] / 8


def test_a_max_in_the_first_tile_needs_no_rescale():
    assert late_rescale.late_rescale(PROBLEM.with_(inputs="falling_max"), 0).rescales == 0


def test_polynomials_come_closer_with_their_degree_and_degree_three_is_below_the_rounding_of_float16():
    errors = [np.abs(late_rescale.exp2_errors(degree)[1]).max() for degree in range(1, 7)]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < late_rescale.ROUNDING["float16"] < errors[1]


def test_exponentials_take_as_long_as_the_products_on_blackwell():
    hopper = units.tile_clocks("H100", GPUS["H100"], 128, 128, 128)
    blackwell = units.tile_clocks("B200", GPUS["B200"], 128, 128, 128)
    assert (hopper.tensor_cores, hopper.exponentials) == (2048, 1024)
    assert (blackwell.tensor_cores, blackwell.exponentials) == (1024, 1024)
    assert (hopper.in_turn, hopper.overlapped) == (3072, 2048)


def test_a_polynomial_takes_work_off_the_exponential_unit():
    clocks = units.tile_clocks("B200", GPUS["B200"], 128, 128, 64, polynomial_share=0.25)
    assert (clocks.tensor_cores, clocks.exponentials, clocks.polynomial) == (512, 768, 96)
    assert clocks.overlapped == 768


def test_every_gpu_with_multiply_add_rates_is_known():
    assert set(units.FMAS_PER_CLOCK) <= set(GPUS)
