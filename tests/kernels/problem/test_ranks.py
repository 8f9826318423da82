"""Which positions lie on which rank, and what ranks see of each other."""

import random

import numpy as np
import pytest

from kernels.oracle.naive import visible_mask
from kernels.problem.ranks import LAYOUTS, runs_of, shares_between


def positions(runs):
    return np.concatenate([run.positions for run in runs])


def test_a_length_that_cannot_be_shared_out_is_refused_with_lengths_that_can():
    with pytest.raises(ValueError, match=r"24 or 32"):
        runs_of(0, 4, 30, "zigzag")
    with pytest.raises(ValueError, match="zigzag, contiguous, striped"):
        runs_of(0, 4, 32, "spiral")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shares_are_what_the_positions_see_once_each(layout):
    chosen = random.Random(layout)
    for _ in range(40):
        world = chosen.choice([2, 3, 4])
        q_len, kv_len = (2 * world * chosen.randint(1, 6) for _ in range(2))
        left, right = chosen.choice([None, 0, 3, 9]), chosen.choice([None, 0, 2, 7])
        for rank, owner in np.ndindex(world, world):
            queries, keys = runs_of(rank, world, q_len, layout), runs_of(owner, world, kv_len, layout)
            apart = positions(keys)[None] - positions(queries)[:, None] - (kv_len - q_len)
            seen = (apart <= (apart if right is None else right)) & (
                apart >= (apart if left is None else -left)
            )
            found = np.zeros_like(seen, dtype=int)
            for share in shares_between(queries, keys, left, right, kv_len - q_len):
                found[share.rows, share.keys] += visible_mask(share.band).numpy()
            assert np.array_equal(found, seen)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_under_a_causal_mask_one_call_per_step_is_enough(layout):
    parts = [runs_of(rank, 4, 64, layout) for rank in range(4)]
    assert max(len(shares_between(q, k, None, 0)) for q in parts for k in parts) == 1


def test_zigzag_shares_the_work_of_a_causal_mask_out_evenly_and_contiguous_does_not():
    def work(layout):
        parts = [runs_of(rank, 4, 32, layout) for rank in range(4)]
        return [
            sum(s.band.visible_pairs for k in parts for s in shares_between(q, k, None, 0)) for q in parts
        ]

    assert len(set(work("zigzag"))) == 1
    assert work("contiguous") == [36, 100, 164, 228]
