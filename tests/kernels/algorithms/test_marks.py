"""The marks of a role and the calls in the source that set them."""

import ast
import inspect

import pytest

from kernels.algorithms.backward import dk_dv, dq
from kernels.algorithms.backward.lanes import KEY_PROGRAM, QUERY_PROGRAM
from kernels.algorithms.flash2 import forward
from kernels.algorithms.flash2.entry import WARPS

MODULES = {"flash2": (forward, WARPS), "dk_dv": (dk_dv, KEY_PROGRAM), "dq": (dq, QUERY_PROGRAM)}


@pytest.mark.parametrize(("module", "role"), MODULES.values(), ids=MODULES)
def test_a_kernel_sets_every_mark_of_its_role_in_one_place(module, role):
    calls = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "mark"
    ]
    numbers = [getattr(module, ast.unparse(call.args[2])).value for call in calls]
    assert sorted(numbers) == list(range(len(role.marks)))


@pytest.mark.parametrize("role", [role for _, role in MODULES.values()], ids=MODULES)
def test_a_mark_has_a_place_in_a_record_before_the_tiles(role):
    from kernels.primitives.marks import Q_TILE

    assert len(role.marks) <= Q_TILE.value
    assert len(set(role.marks)) == len(role.marks)
