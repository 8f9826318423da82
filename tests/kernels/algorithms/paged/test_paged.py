"""Keys in pages: the bits of split-KV decoding, no number of another page, and bytes by formula."""

import numpy as np
import pytest
import torch

from kernels.algorithms import run_traced
from kernels.algorithms.paged.entry import pool_pages
from kernels.algorithms.paged.run import RUNNER, block_table, pools_of
from kernels.algorithms.split_kv.launch import flash_split_kv, split_plan
from kernels.algorithms.split_kv.run import RUNNER as SPLIT_KV
from kernels.device.runtime import DEVICE
from kernels.oracle.rule import judge_trace
from kernels.primitives.launch import asked_of, config_of
from kernels.problem.inputs import make_inputs
from kernels.trace.sample import Sample
from kernels.traffic.modelled import counted_bytes
from tests.kernels.helpers import assert_forward_right, problem_id, tiny

PROBLEMS = [
    tiny(1, 48, head_dim=24, q_heads=4, kv_heads=2, batch=3, kv_splits=2, dtype="bfloat16"),
    tiny(16, 120, q_heads=2, mask="window", window_left=40, window_right=2, kv_splits=3),
    tiny(4, 53, q_heads=6, kv_heads=2, batch=2, mask="causal", kv_splits=3),
    tiny(1, 7, dtype="float32"),
]
every = pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)
SMALL = tiny(2, 50, 4, 8, batch=2, q_heads=4, kv_heads=2, kv_splits=3)


def flash_paged(query, key_pool, value_pool, table):
    key, value = (pool.transpose(1, 2) for pool in (key_pool, value_pool))
    return flash_split_kv(query, key, value, table=table, **asked_of(SMALL), splits=3)[0]


@every
def test_it_is_right_and_has_the_bits_of_split_kv_on_whole_keys(problem, poisoned):
    inputs = make_inputs(problem, DEVICE)
    paged = RUNNER.forward(problem, *inputs)
    assert all(map(torch.equal, paged, SPLIT_KV.forward(problem, *inputs)))
    assert_forward_right(problem, *paged)


@every
def test_every_row_of_the_pools_that_is_not_of_a_sequence_is_nan(problem):
    _, key, value = make_inputs(problem, DEVICE)
    pools = pools_of(problem, key, value)
    assert pools.key.shape == (pool_pages(problem), problem.block_n, problem.kv_heads, problem.head_dim)
    assert len(pools.key) > pools.table.numel() == problem.batch * problem.kv_tiles
    for pool, tensor in ((pools.key, key), (pools.value, value)):
        assert torch.isfinite(pool).sum() == tensor.numel()
        rows = pool[pools.table.long()].flatten(1, 2)[:, : problem.kv_len]  # (batch, keys, heads, head_dim)
        assert torch.equal(rows.transpose(1, 2), tensor)


@pytest.mark.parametrize("pool", [0, 1], ids=["K", "V"])
def test_a_number_of_another_page_would_be_seen(pool):
    """One entry of the table is wrong for the second sequence: its rows alone are NaN."""
    query, *key_value = make_inputs(SMALL, DEVICE)
    pools = pools_of(SMALL, *key_value)
    foreign = next(page for page in range(len(pools.key)) if page not in pools.table)
    table = pools.table.clone()
    table[1, 4] = foreign
    other = [pools.key, pools.value]
    other[1 - pool] = torch.nan_to_num(other[1 - pool])
    out = flash_paged(query, *other, table)
    assert out[1].isnan().all()
    assert torch.isfinite(out[0]).all()


def test_a_table_may_be_wider_and_the_pools_may_lie_otherwise(poisoned):
    query, key, value = make_inputs(SMALL, DEVICE)
    pools = pools_of(SMALL, key, value)
    expected = flash_paged(query, *pools)
    table = torch.nn.functional.pad(pools.table, (0, 3), value=-1)
    other = [pool.transpose(1, 2).contiguous().transpose(1, 2) for pool in pools[:2]]
    assert torch.equal(flash_paged(query, *other, table), expected)


def test_the_order_of_the_pages_is_drawn_from_the_seed_and_no_page_is_used_twice():
    tables = [block_table(SMALL.with_(seed=seed)) for seed in (0, 0, 1)]
    assert np.array_equal(*tables[:2])
    assert not np.array_equal(*tables[1:])
    assert len(np.unique(tables[0])) == tables[0].size
    assert 0 <= tables[0].min() <= tables[0].max() < pool_pages(SMALL)
    assert (np.diff(tables[0]) != 1).any()


@every
def test_each_step_records_its_page_and_four_bytes_of_the_table_and_all_else_is_as_in_split_kv(problem):
    trace, whole = run_traced(problem, "paged"), run_traced(problem, "split_kv")
    assert judge_trace(trace).passes
    has_tile = trace.kv_tile >= 0
    sequence = trace.batch_head // problem.kv_heads
    assert np.array_equal(trace.page[has_tile], block_table(problem)[sequence, trace.kv_tile][has_tile])
    assert (trace.page[~has_tile] == -1).all()
    assert whole.page is None
    table = trace.tensor_bytes_read[:, trace.tensors.index("table")]
    assert table.tolist() == np.where(has_tile, 4, 0).tolist()
    counted = counted_bytes(trace)
    assert counted.pop("table") == 4 * has_tile.sum()
    assert counted == counted_bytes(whole)


def test_counted_bytes_equal_the_formula():
    """Every part reads Q; K, V and the table are read once per key head; and the parts go out and in."""
    problem = PROBLEMS[2]
    plan = split_plan(problem.band, 4, problem.packed_rows, config_of(problem), problem.kv_splits)
    row, rows = problem.head_dim * 2, 4 * problem.packed_rows
    assert counted_bytes(run_traced(problem, "paged")) == {
        "Q": plan.splits * rows * row,
        "K": 4 * problem.kv_len * row,
        "V": 4 * problem.kv_len * row,
        "table": 4 * problem.kv_tiles * 4,
        "partial O": 2 * plan.splits * rows * problem.head_dim * 4,
        "partial lse": 3 * plan.splits * rows * 4,  # the combine reads it twice
        "O": rows * row,
        "lse": rows * 4,
    }


def test_a_sample_of_key_heads_reads_the_pages_of_its_sequence():
    problem = SMALL.with_(batch=1)
    sampled = run_traced(problem, "paged", Sample((2, 3)))
    whole = run_traced(problem, "paged")
    assert sampled.page.tolist() == whole.page[whole.batch_head == 1].tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("kv_len", [1, 63, 1000, 65536])
@pytest.mark.parametrize("heads", [(32, 8), (8, 8)], ids=lambda heads: f"{heads[0]}over{heads[1]}")
@pytest.mark.parametrize("block_n", [16, 64, 128])
def test_decoding_over_pages_is_right_on_the_gpu(kv_len, heads, block_n, poisoned):
    sizes = {"head_dim": 128, "q_heads": heads[0], "kv_heads": heads[1], "batch": 3}
    problem = tiny(1, kv_len, 16, block_n, dtype="bfloat16", **sizes)
    assert_forward_right(problem, *RUNNER.forward(problem, *make_inputs(problem, DEVICE)))
