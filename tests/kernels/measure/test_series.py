"""series.py: which measurements make one curve, and how fast it grows."""

from dataclasses import replace

import pytest

from kernels.device.energy import Sustained
from kernels.measure.series import (
    TRAINING_STEP,
    SweepView,
    fit_exponent,
    peer_curves,
    speedups,
    training_steps,
)
from tests.kernels.documents import LENGTHS, measurement


def view(axis="length", length=1024, mask="full", **load):
    return SweepView(axis, length, 64, "float16", mask, **load)


VIEW, BY_TOKENS = view(batch=1, q_heads=4), {"tokens": 4096, "width": 256}


def curves_of(measured, view=VIEW):
    """By the name of the peer."""
    return {curve.peer: curve for curve in peer_curves("here", measured, view)}


def test_an_exponent_is_fitted_to_the_larger_half():
    assert fit_exponent([(n, 3.0 * n**2) for n in LENGTHS]) == pytest.approx(2)
    overhead = [(16, 100.0), (32, 100.0), (64, 100.0), *((n, n**1.5) for n in (1024, 2048, 4096))]
    assert fit_exponent(overhead) == pytest.approx(1.5)
    assert fit_exponent([(1, 1.0), (2, 4.0)]) is None
    assert fit_exponent([(5, 1.0), (5, 2.0), (5, 3.0)]) is None


def test_key_heads_choose_between_curves_and_a_view_without_them_takes_a_key_head_per_query_head():
    each_own = [measurement(length) for length in LENGTHS]
    shared = [replace(one, problem=one.problem.with_(kv_heads=2)) for one in each_own[1:]]
    for kv_heads, wanted in ((0, 4), (2, 2), (1, 4)):  # the shape with most points, if none is just it
        found = curves_of([*shared, *each_own], replace(VIEW, kv_heads=kv_heads))
        assert {point.problem.kv_heads for point in found["ours"].points} == {wanted}
    alone = curves_of([each_own[0], *shared])["ours"]
    assert [point.problem.kv_heads for point in alone.points] == [4]


def test_a_curve_holds_what_differs_in_length_alone():
    measured = [measurement(length) for length in reversed(LENGTHS)]
    changes = ({"mask": "causal"}, {"dtype": "bfloat16"}, {"head_dim": 128})
    curves = curves_of(measured + [measurement(512, **change) for change in changes])
    assert [point.x for point in curves["naive"].points] == list(LENGTHS)
    assert curves["naive"].exponent("time") == pytest.approx(2)
    assert curves["naive"].exponent("memory") == pytest.approx(2)
    assert curves["ours"].exponent("memory") == pytest.approx(1)
    assert curves["ours"].points[0].value("tflops") == pytest.approx(4 * 4 * 512 * 512 * 64 / 0.1 / 1e9)


def test_exponents_are_of_one_sequence_where_the_tokens_of_a_launch_are_fixed():
    curves = curves_of([measurement(n, batch=4096 // n) for n in LENGTHS])
    assert curves["naive"].exponent("time") == pytest.approx(2)
    assert [point.value("memory") for point in curves["ours"].points] == [409600.0] * 4
    assert curves["ours"].exponent("memory") == pytest.approx(1)


def test_shapes_that_do_not_belong_together_are_kept_apart():
    fixed = [measurement(n, heads=8) for n in LENGTHS[:2]]
    tokens = [measurement(n, batch=4096 // n) for n in LENGTHS]

    def heads(measured, view):
        return [point.problem.q_heads for point in curves_of(measured, view)["naive"].points]

    assert heads(fixed + tokens, VIEW) == [4] * 4
    assert heads(fixed + tokens, view(batch=1, q_heads=8)) == [8] * 2
    assert heads(fixed[:1] + tokens, view(batch=1, q_heads=8)) == [8]  # one just measured is not hidden
    assert heads(fixed + tokens, view(**BY_TOKENS)) == [4] * 4


@pytest.mark.parametrize(("axis", "values"), [("head_dim", (64, 128)), ("batch", (1, 2, 8))])
def test_other_axes(axis, values):
    measured = [measurement(1024, **{axis: value}) for value in values]
    curves = curves_of(measured, view(axis, q_heads=4))
    assert tuple(point.x for point in curves["ours"].points) == values
    assert curves_of(measured, view(axis, 2048, q_heads=4)) == {}


def test_running_out_of_memory_is_a_point_of_the_curve():
    curves = curves_of([measurement(n, naive_fits=n < 4096) for n in LENGTHS])
    (point,) = curves["naive"].out_of_memory
    assert (point.x, point.needed_bytes, point.value("time")) == (4096, 2 * 4 * 4096**2 * 2, None)
    assert curves["naive"].points[0].needed_bytes is None


def test_speed_up_is_over_naive_attention_of_the_same_source_and_direction():
    curves = peer_curves("here", [measurement(n, naive_fits=n < 4096) for n in LENGTHS], VIEW)
    (ours,) = (curve for curve in curves if curve.peer == "ours")
    assert speedups(ours, curves) == [(n, pytest.approx(10)) for n in LENGTHS[:3]]
    assert speedups(ours, peer_curves("recorded", [measurement(512)], VIEW)) == []


def test_a_point_measured_twice_shows_the_last_one():
    first = measurement(512)
    later = replace(first, recorded_at="2027-01-01T00:00:00", results=first.results[:1])
    assert [point.measurement for point in curves_of([first, later])["naive"].points] == [later]


def with_energy(measured, joules):
    sustained = Sustained(2.0, joules, 0.9 * joules, 1.1 * joules, 600.0, 100.0, 1500.0)
    return replace(measured, results=tuple(replace(each, sustained=sustained) for each in measured.results))


def test_the_energy_of_a_training_step_is_that_of_both_passes():
    passes = {"forward": 1.0, "backward": 3.0}
    measured = [with_energy(measurement(512, direction=of), joules) for of, joules in passes.items()]
    (step,) = (each for each in training_steps(peer_curves("here", measured, VIEW)) if each.peer == "ours")
    assert (step.direction, step.values("energy")) == (TRAINING_STEP, {512: 4.0})
    forward = measured[:1]
    assert training_steps(peer_curves("here", forward, VIEW)) == []


def test_a_point_measured_again_without_its_energy_keeps_it():
    again = replace(measurement(512), recorded_at="2026-11-26T00:00:00+00:00")
    curve = curves_of([with_energy(measurement(512), 1.0), again])["ours"]
    assert curve.points[0].measurement is again
    assert curve.values("energy") == {512: 1.0}
