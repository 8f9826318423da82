"""Cases and grids: whatever is asked for is either run or refused in words."""

import pytest

from kernels.check.case.cases import (
    MAX_CASES,
    TRUSTED_CAUSAL_SHAPES,
    TRUSTED_SHAPES,
    CheckCase,
    grid_cases,
    parse_shapes,
)
from kernels.problem import AttentionProblem, InvalidProblem

BASE = CheckCase(AttentionProblem())


def test_the_whole_trusted_list_is_run():
    cases = grid_cases(BASE, None, (64, 128), ("float16", "bfloat16"), ("full", "causal"))
    assert len(cases) == 4 * (2 * len(TRUSTED_SHAPES) + len(TRUSTED_CAUSAL_SHAPES))
    problems = [case.problem for case in cases]
    masks = {each.mask for each in problems if (each.q_len, each.kv_len) in TRUSTED_CAUSAL_SHAPES}
    assert masks == {"causal"}


def test_shapes_are_read_or_refused():
    assert parse_shapes("113x203, 128;  7×9\n128") == ((113, 203), (128, 128), (7, 9))
    for text in ("", "12y", "-5", "1x2x3", "1" * 9, "²", ",".join(map(str, range(1, 200)))):
        with pytest.raises(InvalidProblem, match="shapes="):
            parse_shapes(text)


@pytest.mark.parametrize("count", [0, 401])
def test_too_many_cases_and_none_are_refused(count):
    shapes = [(n, n) for n in range(1, count + 1)]
    with pytest.raises(InvalidProblem, match=f"{count} cases.*expected 1 to {MAX_CASES}"):
        grid_cases(BASE, shapes, (16,), ("float16",), ("full",))


@pytest.mark.parametrize(
    "changes",
    [{"kernel": "flash9"}, {"repeats": 0}, {"repeats": 251}, {"repeats": True}, {"scale": 0.0}],
)
def test_a_case_names_what_it_does_not_accept(changes):
    with pytest.raises(InvalidProblem, match=rf"{next(iter(changes))}=.* is not accepted"):
        CheckCase(AttentionProblem(), **changes)
