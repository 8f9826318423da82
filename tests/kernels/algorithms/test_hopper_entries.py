"""What the entries of the kernels for Hopper say of them; no GPU is needed for it."""

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.flash2.entry import requested_bytes
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS

ENTRY, BACKWARD = ALGORITHMS["flash3"], ALGORITHMS["flash3_backward"]
SWEEP = BACKWARD.kernel("_attn_bwd_hopper")
PROBLEM = AttentionProblem(q_len=700, kv_len=800, head_dim=64, mask="causal")
both = pytest.mark.parametrize("entry", [ENTRY, BACKWARD], ids=lambda entry: entry.name)


@both
def test_what_it_keeps_fits_a_hopper_gpu(entry):
    for head_dim in entry.needs.head_dims:
        problem = entry.with_own_tiles(PROBLEM.with_(head_dim=head_dim))
        for memory, limit in GPUS["H100"].program_limits.items():
            assert 0 < entry.chip_bytes(problem, memory) <= limit


@both
def test_every_preset_that_it_takes_is_recorded(entry):
    problems = {name: entry.with_own_tiles(preset.problem) for name, preset in PRESETS.items()}
    assert list(entry.recorded) == [name for name in problems if entry.refusal(problems[name]) is None]


@pytest.mark.parametrize("head_dim", [64, 256])
@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_the_forward_kernel_asks_for_the_bytes_of_the_plain_one_if_every_query_tile_sees_a_key(
    mask, head_dim
):
    problem = ENTRY.with_own_tiles(PROBLEM.with_(mask=mask, head_dim=head_dim, window_left=200))
    assert ENTRY.requested_bytes(problem) == requested_bytes(problem)


def test_a_query_tile_that_sees_no_key_loads_one_key_tile():
    """Of 512 queries the first 384 see none of 128 keys: three tiles."""
    problem = ENTRY.with_own_tiles(PROBLEM.with_(q_len=512, kv_len=128))
    keys_and_values = 3 * 128 * 64 * 2 * 2
    assert ENTRY.requested_bytes(problem) == requested_bytes(problem) + keys_and_values


ROW = 64 * 2
SUMS = 4 + 4 + 64 * 4
"""Bytes per query of lse, D and the part of dQ, of whole query tiles."""


@pytest.mark.parametrize(
    ("problem", "expected"),
    {
        # Two key tiles; 3 query tiles of 64, 64 and 2 rows. Rows 0 to 129 see keys up to 70 + row: the first
        # key tile is seen by all, the second from row 58 on.
        "causal": (
            PROBLEM.with_(q_len=130, kv_len=200, q_heads=2),
            200 * 4 * ROW + 2 * (130 + 130) * 2 * ROW + 2 * (3 + 3) * 64 * SUMS,
        ),
        # The first 128 keys are seen by nobody: not loaded, their gradients written.
        "unseen keys": (
            PROBLEM.with_(q_len=64, kv_len=256, mask="window", window_left=10, window_right=0),
            128 * ROW * (2 + 4) + 64 * (2 * ROW + SUMS),
        ),
    }.values(),
)
def test_bytes_of_the_sweep_by_hand(problem, expected):
    assert SWEEP.requested_bytes(BACKWARD.with_own_tiles(problem.with_(kv_heads=1))) == expected
