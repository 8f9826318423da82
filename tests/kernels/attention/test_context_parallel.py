"""Context parallelism on gloo ranks: against one device in float64, and who is refused."""

import json
import os
import subprocess
import sys

import pytest
import torch

from kernels.attention.context_parallel import merge
from kernels.attention.sequence_layout import LAYOUTS, Run, band_between, runs_of, shard, unshard
from kernels.oracle.naive import visible_mask
from tests import ROOT
from tests.kernels.attention import ranks


def test_each_rank_gets_its_part_of_attention_and_of_its_gradients_and_notices_a_lost_one(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    commands = [[sys.executable, ranks.__file__, str(rank), str(tmp_path)] for rank in range(ranks.WORLD)]
    started = [subprocess.Popen(command, env=environment, **pipes) for command in commands]
    for number, rank in enumerate(started):
        out, errors = rank.communicate(timeout=300)
        assert rank.returncode == (ranks.LEAVES if number == ranks.WORLD - 1 else 0), errors[-2000:]
        assert json.loads(out.splitlines()[-1]) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_make_the_whole_again_and_hold_the_positions_of_their_runs(layout):
    whole = torch.arange(48).reshape(1, 1, 24, 2)
    parts = [shard(whole, rank, 4, layout) for rank in range(4)]
    assert torch.equal(unshard(parts, layout), whole)
    for rank, part in enumerate(parts):
        positions = torch.cat([run.positions() for run in runs_of(rank, 4, 24, layout)])
        assert torch.equal(part[0, 0, :, 0] // 2, positions)


def test_a_length_that_cannot_be_shared_out_is_refused_with_lengths_that_can():
    with pytest.raises(ValueError, match=r"24 or 32"):
        runs_of(0, 4, 30, "zigzag")
    with pytest.raises(ValueError, match="zigzag, contiguous, striped"):
        runs_of(0, 4, 32, "spiral")


def test_a_zigzag_rank_has_the_same_work_under_a_causal_mask_as_any_other():
    pairs = []
    for rank in range(4):
        queries = [run.positions() for run in runs_of(rank, 4, 32, "zigzag")]
        pairs.append(int(sum((position + 1).sum() for position in queries)))
    assert len(set(pairs)) == 1


@pytest.mark.parametrize(("left", "right"), [(None, 0), (None, None), (5, 2), (0, 0), (None, 3)])
@pytest.mark.parametrize("step", [1, 3])
def test_the_band_between_two_runs_is_what_their_positions_see(left, right, step):
    for first in range(0, 40, 3):
        queries, keys = Run(18 % step + 18, step, 7), Run(first, step, 9)
        for offset in (0, 4 * step):
            apart = keys.positions()[None, :] - queries.positions()[:, None] - offset
            seen = torch.ones_like(apart, dtype=torch.bool)
            seen &= apart <= right if right is not None else True
            seen &= apart >= -left if left is not None else True
            band = band_between(queries, keys, left, right, offset)
            assert torch.equal(visible_mask(band), seen) if band else not seen.any()


def test_partial_results_merge_to_the_whole_also_if_a_part_saw_no_key():
    scores, values = torch.randn(5, 12).double(), torch.randn(12, 3).double()
    scores[2, :6] = float("-inf")
    scores[4] = float("-inf")
    lse = [torch.logsumexp(part, -1) for part in (scores[:, :6], scores[:, 6:])]
    out = [
        torch.softmax(part, -1).nan_to_num() @ v
        for part, v in zip(scores.split(6, 1), values.split(6), strict=True)
    ]
    whole, whole_lse = merge(out[0], lse[0], out[1], lse[1])
    expected = torch.softmax(scores, -1).nan_to_num() @ values
    torch.testing.assert_close(whole.double(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(whole_lse, torch.logsumexp(scores, -1))
