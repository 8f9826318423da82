"""The plan of tiles: against every pair, against torch's block masks, and against the band."""

import random

import numpy as np
import pytest

from kernels.measure.flex import mask_mod
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.pattern import FULL, PARTIAL, SKIPPED, alibi_slopes, plan_of, seen_once
from kernels.problem.tiles import TileKind, count_tiles, streamed_keys, streamed_queries, visited_tiles
from tests.kernels.problem.test_expression import random_condition


def random_problem(seed, by_head=False):
    draw = random.Random(seed)
    kv_len = draw.randrange(1, 200)
    cuts = sorted(draw.choices(range(kv_len + 1), k=3))
    documents = " ".join(map(str, np.diff([0, *cuts])))
    mask = draw.choice(["documents", "prefix", "sinks", "expression"])
    return AttentionProblem(
        batch=2,
        q_heads=2,
        q_len=draw.randrange(1, kv_len + 1),
        kv_len=kv_len,
        mask=mask,
        documents=documents,
        prefix=draw.randrange(1, 20),
        window_left=draw.randrange(40),
        expression=random_condition(draw, 2) + (" and h == 0" if by_head else ""),
        block_m=draw.choice([8, 16, 32]),
        block_n=draw.choice([8, 16, 32]),
    )


def tiles_of(visible, block_m, block_n):
    """(query tiles, key tiles) of (rows, keys)."""
    for first in range(0, len(visible), block_m):
        rows = visible[first : first + block_m]
        yield [rows[:, key : key + block_n] for key in range(0, rows.shape[1], block_n)]


def starts_of(row):
    """Where stretches of a row begin."""
    return np.flatnonzero(np.diff(row.astype(int), prepend=0) > 0)


@pytest.mark.parametrize("seed", range(40))
def test_the_plan_is_that_of_every_pair(seed):
    problem = random_problem(seed, by_head=seed % 4 == 0)
    plan = plan_of(problem.pattern, problem.block_m, problem.block_n)
    assert len(plan.kinds) == (4 if problem.pattern.by_head else 1)
    for head, (kinds, pairs) in enumerate(zip(plan.kinds, plan.pairs, strict=True)):
        visible = problem.pattern.visible(head=head)
        assert pairs == visible.sum()
        for row, tiles in zip(kinds, tiles_of(visible, problem.block_m, problem.block_n), strict=True):
            for kind, tile in zip(row, tiles, strict=True):
                whole = tile.shape[1] == problem.block_n and tile.all()
                assert kind == (FULL if whole else PARTIAL if tile.any() else SKIPPED)
    for axis in (1, 2):
        of_rows = [problem.pattern.visible(head=head) for head in range(len(plan.kinds))]
        of_stays = np.concatenate([each if axis == 1 else each.T for each in of_rows])
        stretches = plan.stretches_of(axis)
        assert bool(len(stretches)) == all(len(starts_of(row)) < 2 for row in of_stays)
        if len(stretches):
            (first, end), places = stretches.swapaxes(0, 1).reshape(2, -1, 1), np.arange(of_stays.shape[1])
            assert (of_stays == (places >= first) & (places < end)).all()
    if len(plan.kinds) == 1:
        visible = problem.pattern.visible()
        seen = (visible.any(axis=1).sum() * problem.heads, visible.any(axis=0).sum() * problem.key_heads)
        assert seen_once(problem.pattern, problem.group_size) == seen


def test_the_plan_equals_the_block_masks_of_torch_on_many_masks():
    from torch.nn.attention.flex_attention import create_block_mask  # loads torch.compile

    for seed in range(50):
        problem = random_problem(seed).with_(q_len=96, kv_len=96, documents="30 1 40", batch=1, q_heads=1)
        sizes = (problem.block_m, problem.block_n)
        torchs = create_block_mask(mask_mod(problem, "cpu"), None, None, 96, 96, "cpu", sizes)
        kinds = plan_of(problem.pattern, *sizes).kinds[0]
        assert (torchs.to_dense()[0, 0].numpy() == (kinds != SKIPPED)).all(), problem
        assert (torchs.full_kv_num_blocks[0, 0].numpy() == (kinds == FULL).sum(axis=1)).all(), problem


@pytest.mark.parametrize(("mask", "words"), [("causal", "k <= q"), ("window", "-2 <= q - k <= 50")])
def test_a_band_and_its_expression_have_the_same_tiles_in_the_same_order(mask, words):
    band = AttentionProblem(
        q_len=70, kv_len=101, mask=mask, block_m=16, block_n=8, window_left=50, window_right=2, q_heads=3
    )
    same = band.with_(mask="expression", expression=words)
    lists = plan_of(same.pattern, 16, 8).tiles_of(1)[0]
    for q_tile, (first_full, end_full, count, *tiles) in enumerate(lists):
        own, listed = visited_tiles(band, q_tile), visited_tiles(same, q_tile)
        assert tiles[:count] == [*range(own.first, own.end)]
        assert (first_full, end_full) == (own.first_full - own.first, own.end_full - own.first)
        for tile in range(band.kv_tiles):
            assert own.kind(tile) is listed.kind(tile)
    assert count_tiles(band) == count_tiles(same)
    assert streamed_keys(band) == streamed_keys(same)
    assert streamed_queries(band) == streamed_queries(same)


def test_tiles_that_differ_between_heads_are_partial_on_the_page_and_counted_by_head():
    problem = AttentionProblem(
        q_heads=2, q_len=32, kv_len=32, block_m=16, block_n=16, mask="expression", expression="h == 0"
    )
    assert visited_tiles(problem, 0).kind(1) is TileKind.PARTIAL
    counts = count_tiles(problem)
    assert (counts.full, counts.partial, counts.skipped) == (4, 0, 4)


def test_alibi_slopes_are_those_of_the_paper():
    assert alibi_slopes(8) == pytest.approx([2.0**-i for i in range(1, 9)])
    assert alibi_slopes(12)[8:] == pytest.approx([2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"documents": "200 57"}, "documents"),
        ({"documents": "20 -3"}, "documents"),
        ({"documents": "two"}, "documents"),
        ({"documents": 3}, "documents"),
        ({"q_len": 300}, "q_len"),
    ],
)
def test_documents_that_do_not_fit_are_refused(change, field):
    with pytest.raises(InvalidProblem) as refusal:
        AttentionProblem(mask="documents", **change)
    assert refusal.value.field == field


def test_rows_cut_off_keep_their_positions():
    problem = AttentionProblem(q_len=40, kv_len=64, mask="documents", documents="20 30 14", alibi=1)
    part = problem.pattern.of_rows(8, 24)
    assert (part.visible() == problem.pattern.visible(8, 16)).all()
    assert part.first_position == 64 - 40 + 8
