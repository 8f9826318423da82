"""sweep.py: its points, its time limit, partial results, and points that fail."""

import pytest

from kernels.measure import sweep
from tests.kernels.documents import measurement


def ignore(_):
    pass


def test_the_sweep_is_that_of_the_benchmarks_and_the_most_wanted_comes_first():
    points = sweep.sweep_points()
    problems = [point.problem for point in points]
    assert all(problem.batch * problem.q_len == 16384 for problem in problems)
    assert all(problem.q_heads * problem.head_dim == 2048 for problem in problems)
    assert {problem.head_dim for problem in problems} == {64, 128, 256}
    assert {problem.q_len for problem in problems} == {512, 1024, 2048, 4096, 8192, 16384}
    assert {problem.mask for problem in problems} == {"full", "causal"}
    first = {(problem.dtype, problem.head_dim) for problem in problems[: 6 * 2 * 2]}
    assert first == {("float16", 64), ("float16", 128)}
    assert len(set(problems[:72])) == 72
    assert all("flex" in point.peers for point in points[72:])


def test_every_point_is_saved_as_soon_as_it_is_measured(quick_points):
    saved = []
    document = sweep.run_sweep(quick_points, 1.0, saved.append, ignore, budget_s=0.01)
    assert [len(partial.measurements) for partial in saved] == [1, 2, 2]
    assert [len(partial.left_out) for partial in saved] == [1, 0, 0]
    assert [measured.problem.q_len for measured in document.measurements] == [32, 64]
    assert {result.direction for result in document.measurements[0].results} == {"forward", "backward"}


def test_what_there_was_no_time_for_is_named(quick_points):
    document = sweep.run_sweep(quick_points, 0.0, ignore, ignore)
    assert document.measurements == ()
    assert document.left_out == tuple(point.name for point in quick_points)


@pytest.mark.parametrize(
    ("message", "left_out"),
    [("no such thing", 1), ("CUDA error: an illegal memory access was encountered", 2)],
    ids=["a point that fails", "a lost device"],
)
def test_a_failure_leaves_out_its_point_and_a_lost_device_the_rest(
    quick_points, monkeypatch, message, left_out
):
    def fail(problem, peers, directions):
        if problem.q_len == 32:
            raise RuntimeError(message)
        return measurement(512)

    monkeypatch.setattr(sweep, "measure", fail)
    document = sweep.run_sweep(quick_points, 1.0, ignore, ignore)
    assert document.left_out == tuple(point.name for point in quick_points[:left_out])
