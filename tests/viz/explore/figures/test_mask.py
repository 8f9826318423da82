"""The mask view: every tile whole, cut or skipped."""

import numpy as np
import pytest

from kernels.problem import AttentionProblem
from kernels.problem.tiles import count_tiles
from viz.explore.figures.mask import mask_figure, tile_kinds
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_the_mask_view_counts_what_the_traversal_counts(mask):
    problem = PROBLEM.with_(mask=mask, window_left=20, q_len=50)
    counts = count_tiles(problem)
    kinds = tile_kinds(problem)
    assert [int((kinds == kind).sum()) for kind in (0, 1, 2)] == [counts.skipped, counts.partial, counts.full]
    assert np.array_equal(mask_figure(problem, theme.LIGHT).data[0].z, kinds)


def test_large_masks_are_thinned_out():
    kinds = tile_kinds(PROBLEM.with_(q_len=16384, kv_len=16384))
    assert kinds.shape == (256, 256)
    assert kinds[0].tolist() == [1] + [0] * 255
