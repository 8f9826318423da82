"""Cases and grids: whatever is asked for is either run or refused in words."""

import pytest

from kernels.check.case.cases import (
    MAX_CASES,
    TRUSTED_CAUSAL_SHAPES,
    TRUSTED_SHAPES,
    CheckCase,
    estimated_seconds,
    grid_cases,
    parse_shapes,
    quick_case,
)
from kernels.problem import AttentionProblem, InvalidProblem

BASE = CheckCase(AttentionProblem())


def test_the_whole_trusted_list_is_run_on_a_gpu():
    grid = grid_cases(BASE, "cuda", None, (64, 128), ("float16", "bfloat16"), ("full", "causal"))
    assert len(grid.cases) == 4 * (2 * len(TRUSTED_SHAPES) + len(TRUSTED_CAUSAL_SHAPES))
    assert grid.left_out == ()
    problems = [case.problem for case in grid.cases]
    masks = {each.mask for each in problems if (each.q_len, each.kv_len) in TRUSTED_CAUSAL_SHAPES}
    assert masks == {"causal"}


def test_the_interpreter_leaves_out_what_takes_long_and_says_so():
    grid = grid_cases(BASE, "interpreter", None, (64,), ("float16",), ("full",))
    assert len(grid.cases) + len(grid.left_out) == len(TRUSTED_SHAPES)
    assert "1024x1024" in grid.words
    run, left_out = (
        [estimated_seconds(case, "interpreter") for case in cases] for cases in (grid.cases, grid.left_out)
    )
    assert max(run) <= min(left_out)


def test_shapes_are_read_or_refused():
    assert parse_shapes("113x203, 128;  7×9\n128") == ((113, 203), (128, 128), (7, 9))
    for text in ("", "12y", "-5", "1x2x3", "1" * 9, "²", ",".join(map(str, range(1, 200)))):
        with pytest.raises(InvalidProblem, match="shapes="):
            parse_shapes(text)


@pytest.mark.parametrize("count", [0, 401])
def test_too_many_cases_and_none_are_refused(count):
    shapes = [(n, n) for n in range(1, count + 1)]
    with pytest.raises(InvalidProblem, match=f"{count} cases.*expected 1 to {MAX_CASES}"):
        grid_cases(BASE, "cuda", shapes, (16,), ("float16",), ("full",))


@pytest.mark.parametrize(
    "changes",
    [{"kernel": "flash9"}, {"repeats": 0}, {"repeats": 251}, {"repeats": True}, {"scale": 0.0}],
)
def test_a_case_names_what_it_does_not_accept(changes):
    with pytest.raises(InvalidProblem, match=rf"{next(iter(changes))}=.* is not accepted"):
        CheckCase(AttentionProblem(), **changes)


def test_of_a_long_case_a_part_is_quick_and_a_quick_one_stays():
    long = CheckCase(AttentionProblem(batch=2, q_heads=8, kv_heads=2, q_len=4096, kv_len=8192, mask="causal"))
    quick = quick_case(long, "interpreter", 8.0)
    assert estimated_seconds(quick, "interpreter") <= 8.0 < estimated_seconds(long, "interpreter")
    assert (quick.problem.heads, quick.problem.key_heads) == (4, 1)
    assert (quick.problem.kv_len, quick.problem.mask) == (2 * quick.problem.q_len, "causal")
    assert quick_case(quick, "interpreter", 8.0) == quick
