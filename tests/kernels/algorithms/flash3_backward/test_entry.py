"""What the entry of the backward sweep says of its kernels; no GPU is needed for it."""

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from viz.player.source import kernel_source

ENTRY = ALGORITHMS["flash3_backward"]
SWEEP = ENTRY.kernel("_attn_bwd_hopper")
PROBLEM = ENTRY.with_own_tiles(AttentionProblem(q_len=700, kv_len=800, head_dim=64, mask="causal"))


@pytest.mark.parametrize("head_dim", ENTRY.needs.head_dims)
def test_what_it_keeps_fits_a_hopper_gpu(head_dim):
    problem = PROBLEM.with_(head_dim=head_dim)
    for memory, limit in GPUS["H100"].program_limits.items():
        assert 0 < ENTRY.chip_bytes(problem, memory) <= limit


def test_every_preset_that_it_takes_is_recorded():
    taken = {
        name
        for name, preset in PRESETS.items()
        if ENTRY.refusal(ENTRY.with_own_tiles(preset.problem)) is None
    }
    assert set(ENTRY.recorded) == taken


def test_other_tiles_than_its_own_are_refused():
    assert ENTRY.refusal(PROBLEM) is None
    assert "64 x 128" in str(ENTRY.refusal(PROBLEM.with_(block_n=64)))


def test_bytes_of_the_sweep_by_hand():
    """Two key tiles of 128 and 72 keys; 3 query tiles of 64, 64 and 2 rows. Causal: aligned at the end."""
    problem = ENTRY.with_own_tiles(
        AttentionProblem(q_len=130, kv_len=200, head_dim=64, q_heads=2, kv_heads=1, mask="causal")
    )
    row = 64 * 2
    keys = 200 * 4 * row
    # Rows 0 to 129 see keys up to 70 + row: the first key tile is seen by all, the second from row 58 on.
    queries = 2 * (130 + 130) * 2 * row
    parts = 2 * (3 + 3) * 64 * (4 + 4 + 64 * 4)
    assert SWEEP.requested_bytes(problem) == keys + queries + parts


def test_keys_that_nobody_sees_are_not_loaded():
    window = AttentionProblem(
        q_len=64, kv_len=256, head_dim=64, mask="window", window_left=10, window_right=0
    )
    problem = ENTRY.with_own_tiles(window)
    row = 64 * 2
    assert SWEEP.requested_bytes(problem) == 128 * row * (2 + 4) + 64 * (2 * row + 4 + 4 + 64 * 4)


@pytest.mark.parametrize(
    ("phase", "file", "words"),
    [
        ("load Q, lse", "loader", "load_into(shared.q"),
        ("load dO, D", "loader", "load_into(shared.do"),
        ("QK^T", "query_tile", "warpgroup_mma(kept, streamed"),
        ("dP", "query_tile", "issue_scores(v, tile_of(shared.do"),
        ("P from lse", "query_tile", "gl.exp2(scores_t"),
        ("mask", "query_tile", "band.right"),
        ("dV", "query_tile", "warpgroup_mma(p, do, dv"),
        ("dS", "query_tile", "dp_t - delta"),
        ("dK", "query_tile", "warpgroup_mma(ds, q, dk"),
        ("dQ", "d_query", "warpgroup_mma(ds_t"),
        ("add dQ", "d_query", "red.global.add"),
    ],
)
def test_each_phase_shows_the_line_it_is_about_in_its_own_file(phase, file, words):
    lines = [line for line in kernel_source(SWEEP, SWEEP.source).step if line.phase == phase]
    assert any(words in line.text and line.file.endswith(f"/{file}.py") for line in lines)


@pytest.mark.parametrize("words", ["dv = warpgroup_mma(", "dk = warpgroup_mma("])
def test_a_product_that_stands_in_two_branches_is_shown_with_the_else_between(words):
    """Without it, the reader would see the product added twice."""
    texts = [line.text.strip() for line in kernel_source(SWEEP, SWEEP.source).step]
    first, second = (number for number, text in enumerate(texts) if text.startswith(words))
    assert "else:" in texts[first:second]
