"""The marks of a role and the lines of the source that set them."""

import ast
from collections import Counter

import pytest

from kernels.algorithms.backward.lanes import KEY_PROGRAM, QUERY_PROGRAM
from kernels.algorithms.flash2.entry import WARPS
from kernels.primitives.marks import Q_TILE
from tests import ROOT

FOLDER = ROOT / "kernels" / "algorithms"
SOURCES = {
    "flash2": (("flash2/forward.py", "flash2/recording.py"), WARPS),
    "dk_dv": (("backward/dk_dv.py", "backward/recording_dk_dv.py"), KEY_PROGRAM),
    "dq": (("backward/dq.py", "backward/recording_dq.py"), QUERY_PROGRAM),
}


@pytest.mark.parametrize(("files", "role"), SOURCES.values(), ids=SOURCES)
def test_a_kernel_sets_every_mark_of_its_role_in_one_place(files, role):
    """Each but the first has a name that is used once; the first is set by `record_turn`."""
    trees = [ast.parse((FOLDER / file).read_text()) for file in files]
    used = Counter(
        node.id
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )
    names = [mark.upper().replace(" ", "_") for mark in role.marks]
    assert names[0] == "START"
    assert [used[name] for name in names[1:]] == [1] * (len(names) - 1)
    assert used["record_turn"] == 1


@pytest.mark.parametrize("role", [role for _, role in SOURCES.values()], ids=SOURCES)
def test_a_mark_has_a_place_in_a_record_before_the_tiles(role):
    assert len(role.marks) <= Q_TILE.value
    assert len(set(role.marks)) == len(role.marks)
