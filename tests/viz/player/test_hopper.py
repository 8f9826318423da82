"""The player draws a run of FlashAttention-3: its phases, parts and lines, as if the run were recorded."""

import pytest

from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from tests.kernels.algorithms.flash3.as_if import as_if_run
from viz.player.data import player_data

PROBLEM = AttentionProblem(q_len=300, kv_len=300, head_dim=64, mask="causal")


@pytest.fixture(scope="module", params=[64, 256])
def data(request):
    return player_data(as_if_run(PROBLEM.with_(head_dim=request.param)), "here", GPUS["H100"])


def functions_of(data):
    """Files of the function that computes, and of its softmax: other ones run for long rows."""
    wide = data["problem"]["head_dim"] > 128
    return ("attend_wide.py", "online_softmax.py") if wide else ("attend.py", "softmax.py")


def test_its_rings_are_drawn_with_all_their_slots(data):
    (kernel,) = data["kernels"]
    parts = {part["name"]: part["bytes"] for part in kernel["parts"]}
    wide = "O out" not in parts
    columns, keys = (256, 64) if wide else (64, 128)
    assert parts["Q"] == (1 if wide else 2) * 128 * columns * 2
    assert parts["K"] == parts["V"] == 2 * keys * columns * 2
    assert "With all slots of the rings" in data["gpu"]["words"]


def test_lines_of_all_its_files_are_shown(data):
    (kernel,) = data["kernels"]
    _, step, _ = kernel["source"]["lines"]
    files = {file.rpartition("/")[2] for *_, file in step}
    assert files == {"loader.py", "products.py", "mask.py", *functions_of(data)}
