"""The marks of a role and the lines of the source that set them."""

import ast
from collections import Counter

import pytest

from kernels.algorithms.backward.lanes import KEY_PROGRAM, QUERY_PROGRAM
from kernels.algorithms.flash2.entry import WARPS
from kernels.primitives.marks import Q_TILE
from tests import ROOT

ROLES = {"flash2": WARPS, "dk_dv": KEY_PROGRAM, "dq": QUERY_PROGRAM}


def test_flash2_sets_every_mark_of_its_role_in_one_place():
    """Each but the first by its name, the first by `record_turn`. Those of the others: test_lanes.py."""
    folder = ROOT / "kernels" / "algorithms" / "flash2"
    trees = [ast.parse((folder / file).read_text()) for file in ("forward.py", "recording.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used = Counter(node.id for node in nodes if isinstance(node.ctx, ast.Load))
    names = [mark.upper().replace(" ", "_") for mark in WARPS.marks]
    assert names[0] == "START"
    assert [used[name] for name in ("record_turn", *names[1:])] == [1] * len(names)


@pytest.mark.parametrize("role", ROLES.values(), ids=ROLES)
def test_a_mark_has_a_place_in_a_record_before_the_tiles(role):
    assert len(set(role.marks)) == len(role.marks) <= Q_TILE.value
