"""Context parallelism on gloo ranks: against one device in float64, who is refused, and who ends."""

import multiprocessing
import time

import pytest
import torch

from kernels.attention.context_parallel.processes import RankFailed, run_on_ranks, traced_on_ranks
from kernels.attention.context_parallel.run import RunOrder
from kernels.attention.context_parallel.shards import shard, unshard
from kernels.device.runtime import DEVICE
from kernels.primitives.merge import Part, merged
from kernels.problem import AttentionProblem
from kernels.problem.ranks import LAYOUTS, runs_of
from kernels.trace.ranks import RanksTrace
from tests.kernels.attention import ranks


def test_each_rank_gets_its_part_of_attention_and_of_its_gradients():
    assert run_on_ranks(ranks.failures, ranks.RANKS) == [[]] * ranks.RANKS


@pytest.mark.parametrize(
    ("work", "said"),
    [(ranks.one_ends, "rank 1 ended .* 7"), (ranks.one_fails, "rank 1: ZeroDivisionError: planted")],
)
def test_a_rank_that_is_lost_ends_the_others_and_is_named(work, said):
    with pytest.raises(RankFailed, match=said):
        run_on_ranks(work, 2)
    assert multiprocessing.active_children() == []


def test_a_rank_that_hangs_is_named_after_the_time_limit():
    began = time.monotonic()
    with pytest.raises(RankFailed, match="rank 1 did not go on from step 0 within 5 s"):
        run_on_ranks(ranks.one_hangs, 2, limit_s=5)
    assert time.monotonic() - began < 300  # it would sleep for 600


def test_what_the_ranks_refuse_is_raised_here():
    with pytest.raises(ValueError, match=r"28 or 32"):
        traced_on_ranks(RunOrder(AttentionProblem(q_len=30, kv_len=32, head_dim=16)), 2)


@pytest.mark.parametrize(
    ("method", "layout", "direction"), [("ring", "zigzag", "forward"), ("all_to_all", "zigzag", "backward")]
)
def test_a_trace_holds_what_each_rank_did(method, layout, direction, tmp_path):
    shape = {"q_len": 32, "kv_len": 32, "head_dim": 16, "q_heads": 2, "kv_heads": 2, "mask": "causal"}
    problem = AttentionProblem(**shape)
    trace = traced_on_ranks(RunOrder(problem, method, layout, direction), 2)
    assert all(report.passes for report in trace.reports.values())
    heads = problem.q_heads // (2 if method == "all_to_all" else 1)
    assert heads * sum(map(trace.pairs, range(2))) == problem.q_heads * problem.band.visible_pairs
    assert (trace.span_end_ns >= trace.span_begin_ns).all()
    if method == "ring":
        assert trace.pairs(0) == trace.pairs(1)  # zigzag
        sent = trace.span_bytes[trace.of("transfer", 0)].sum()
        assert sent == 2 * problem.kv_heads * 16 * problem.head_dim * problem.itemsize  # K and V of a part
        query, key, _ = (tensor[0, 0].double() for tensor in inputs_of(problem))
        scores = (query @ key.T * problem.scale).masked_fill(torch.ones(32, 32).triu(1).bool(), float("-inf"))
        lse = torch.logsumexp(scores, -1)[torch.from_numpy(trace.positions).long()]
        torch.testing.assert_close(torch.from_numpy(trace.lse[:, -1]).double(), lse, rtol=0, atol=2e-3)
    trace.save(tmp_path / "ranks.npz")
    assert RanksTrace.load(tmp_path / "ranks.npz").ns == trace.ns


def inputs_of(problem):
    from kernels.problem.inputs import make_inputs

    return make_inputs(problem)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_make_the_whole_again_and_hold_the_positions_of_their_runs(layout):
    whole = torch.arange(48).reshape(1, 1, 24, 2)
    parts = [shard(whole, rank, 4, layout) for rank in range(4)]
    assert torch.equal(unshard(parts, layout), whole)
    for rank, part in enumerate(parts):
        positions = [position for run in runs_of(rank, 4, 24, layout) for position in run.positions]
        assert (part[0, 0, :, 0] // 2).tolist() == positions


def test_partial_results_merge_to_the_whole_also_if_a_part_saw_no_key_or_has_fewer_rows():
    scores, values = torch.randn(5, 12).double(), torch.randn(12, 16).double()
    scores[2, :6] = float("-inf")
    scores[4] = float("-inf")
    scores[:2, 6:] = float("-inf")  # the second part has no such rows

    def part(first, keys):
        own = scores[first:, keys]
        out = torch.softmax(own, -1).nan_to_num() @ values[keys]
        return Part(first, *(each.float()[None, None].to(DEVICE) for each in (out, torch.logsumexp(own, -1))))

    out, lse = merged([part(0, slice(0, 6)), part(2, slice(6, 12))], 5, torch.float32)
    expected = torch.softmax(scores, -1).nan_to_num() @ values
    torch.testing.assert_close(out[0, 0].double().cpu(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(lse[0, 0].double().cpu(), torch.logsumexp(scores, -1), rtol=0, atol=1e-6)
