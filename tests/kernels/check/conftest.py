"""Names a function as the user's kernel, and checks it."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.problem import AttentionProblem

TINY = CheckCase(AttentionProblem(q_len=16, kv_len=16, head_dim=16), "user", False, 2)


@pytest.fixture
def named(tmp_path):
    """The kernel of that name in a file, or in a source that is saved as mine.py."""

    def name(source, function="attention"):
        path = source if isinstance(source, Path) else tmp_path / "mine.py"
        if path is not source:
            path.write_text(source)
        kernel = UserKernel.parse(f"{path}:{function}")
        name_user_kernels([kernel])
        return kernel

    return name


@pytest.fixture
def checked(named):
    """The result of the function's check on TINY, with some fields of the case or its problem changed."""

    def check(source, function="attention", case=TINY, compiles=False, **changes):
        named(source, function)
        of_case = {key: changes.pop(key) for key in [*changes] if hasattr(case, key)}
        problem = case.problem.with_(**changes)
        return run_check(replace(case, problem=problem, **of_case), compiles=compiles)

    return check
