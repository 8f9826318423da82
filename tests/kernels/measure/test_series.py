"""series.py: which measurements make one curve, and how fast it grows."""

from dataclasses import replace

import pytest

from kernels.measure.series import SweepView, fit_exponent, peer_curves, speedups
from tests.kernels.documents import LENGTHS, measurement

VIEW = SweepView("length", 1024, 64, "float16", "full", batch=1, q_heads=4)


def by_peer(curves):
    return {curve.peer: curve for curve in curves}


def test_an_exponent_is_fitted_to_the_larger_half():
    assert fit_exponent([(n, 3.0 * n**2) for n in LENGTHS]) == pytest.approx(2)
    overhead = [(16, 100.0), (32, 100.0), (64, 100.0), *((n, n**1.5) for n in (1024, 2048, 4096))]
    assert fit_exponent(overhead) == pytest.approx(1.5)
    assert fit_exponent([(1, 1.0), (2, 4.0)]) is None
    assert fit_exponent([(5, 1.0), (5, 2.0), (5, 3.0)]) is None


def test_a_curve_holds_what_differs_in_length_alone():
    measured = [measurement(length) for length in reversed(LENGTHS)]
    others = [
        measurement(512, mask="causal"),
        measurement(512, dtype="bfloat16"),
        measurement(512, head_dim=128),
    ]
    curves = by_peer(peer_curves("recorded", measured + others, VIEW))
    assert [point.x for point in curves["naive"].points] == list(LENGTHS)
    assert curves["naive"].exponent("time") == pytest.approx(2)
    assert curves["naive"].exponent("memory") == pytest.approx(2)
    assert curves["ours"].exponent("memory") == pytest.approx(1)
    assert curves["ours"].points[0].value("tflops") == pytest.approx(4 * 4 * 512 * 512 * 64 / 0.1 / 1e9)


def test_exponents_are_of_one_sequence_where_the_tokens_of_a_launch_are_fixed():
    curves = by_peer(peer_curves("recorded", [measurement(n, batch=4096 // n) for n in LENGTHS], VIEW))
    assert curves["naive"].exponent("time") == pytest.approx(2)
    assert [point.value("memory") for point in curves["ours"].points] == [409600.0] * 4
    assert curves["ours"].exponent("memory") == pytest.approx(1)


def test_shapes_that_do_not_belong_together_are_kept_apart():
    fixed = [measurement(n, heads=8) for n in LENGTHS[:2]]
    tokens = [measurement(n, batch=4096 // n) for n in LENGTHS]

    def heads(measured, view):
        return [
            point.problem.q_heads for point in by_peer(peer_curves("here", measured, view))["naive"].points
        ]

    assert heads(fixed + tokens, VIEW) == [4] * 4
    wanted = SweepView("length", 1024, 64, "float16", "full", batch=1, q_heads=8)
    assert heads(fixed + tokens, wanted) == [8] * 2
    assert heads(fixed[:1] + tokens, wanted) == [8]  # one point just measured is not hidden
    by_tokens = SweepView("length", 1024, 64, "float16", "full", tokens=4096, width=256)
    assert heads(fixed + tokens, by_tokens) == [4] * 4


def test_a_view_makes_the_problems_of_its_axis():
    fixed = SweepView("length", 1024, 64, "float16", "causal", batch=3, q_heads=5).moved_to(2048)
    problem = fixed.problem("float32")
    assert (problem.q_len, problem.kv_len, problem.head_dim, problem.mask) == (2048, 2048, 64, "causal")
    assert (problem.batch, problem.q_heads, problem.kv_heads, problem.dtype) == (3, 5, 5, "float32")
    by_tokens = SweepView("head_dim", 1024, 64, "float16", "full", tokens=4096, width=256)
    shapes = [(p.batch, p.q_heads) for p in (by_tokens.moved_to(d).problem("float16") for d in (64, 128))]
    assert shapes == [(4, 4), (4, 2)]


@pytest.mark.parametrize(("axis", "values"), [("head_dim", (64, 128)), ("batch", (1, 2, 8))])
def test_other_axes(axis, values):
    measured = [measurement(1024, **{axis: value}) for value in values]
    curves = by_peer(peer_curves("here", measured, SweepView(axis, 1024, 64, "float16", "full", q_heads=4)))
    assert tuple(point.x for point in curves["ours"].points) == values
    assert peer_curves("here", measured, SweepView(axis, 2048, 64, "float16", "full", q_heads=4)) == []


def test_running_out_of_memory_is_a_point_of_the_curve():
    curves = by_peer(peer_curves("here", [measurement(n, naive_fits=n < 4096) for n in LENGTHS], VIEW))
    (point,) = curves["naive"].out_of_memory
    assert (point.x, point.needed_bytes, point.value("time")) == (4096, 2 * 4 * 4096**2 * 2, None)
    assert curves["naive"].points[0].needed_bytes is None


def test_speed_up_is_over_naive_attention_of_the_same_source_and_direction():
    curves = peer_curves("here", [measurement(n, naive_fits=n < 4096) for n in LENGTHS], VIEW)
    ours = by_peer(curves)["ours"]
    assert speedups(ours, curves) == [(n, pytest.approx(10)) for n in LENGTHS[:3]]
    assert speedups(ours, peer_curves("recorded", [measurement(512)], VIEW)) == []


def test_a_point_measured_twice_shows_the_last_one():
    first = measurement(512)
    later = replace(first, recorded_at="2027-01-01T00:00:00", results=first.results[:1])
    naive = by_peer(peer_curves("here", [first, later], VIEW))["naive"]
    assert [point.measurement for point in naive.points] == [later]
