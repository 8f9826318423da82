"""A sample holds what the whole run holds of the same heads and query tiles, to the bit and to the byte."""

from dataclasses import fields, replace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.oracle.rule import judge_trace
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace import Trace
from kernels.trace.sample import Sample
from kernels.traffic.modelled import counted_bytes, whole_traffic
from tests.anywhere import ANYWHERE
from tests.kernels.helpers import problem_id

SMALL = AttentionProblem(head_dim=16, block_m=16, block_n=16, mask="causal")
RAGGED = SMALL.with_(q_len=45, kv_len=58, q_heads=2, kv_heads=2)
PROBLEMS = [
    RAGGED,
    RAGGED.with_(q_len=58, kv_len=29),
    RAGGED.with_(q_len=40, kv_len=60, mask="window", window_left=30, window_right=0, dtype="bfloat16"),
]
GROUPED = SMALL.with_(q_len=12, kv_len=20, batch=2, q_heads=4, kv_heads=2, kv_splits=2)
WHOLE_GROUPS = Sample((2, 3, 6, 7))


@pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)
def test_sampled_query_tiles_are_those_of_the_whole_run(problem):
    last = problem.q_tiles - 1
    whole, sampled = run_traced(problem), run_traced(problem, "flash2", Sample((0, 1), (0, 1, last)))
    kept = np.isin(whole.q_tile, (0, 1, last))
    for name in (field.name for field in fields(Trace)):
        of_whole, of_sample = getattr(whole, name), getattr(sampled, name)
        if name in ("sm", "start_ns", "end_ns"):
            assert of_sample is None
        elif isinstance(of_whole, np.ndarray) and len(of_whole) == whole.steps:
            np.testing.assert_array_equal(of_sample, of_whole[kept], err_msg=name)
    for name, values in whole.matrices.items():
        np.testing.assert_array_equal(sampled.matrices[name], values[kept], err_msg=name)
    rows = sampled.sample.rows(problem)
    np.testing.assert_array_equal(sampled.output, whole.output[:, :, rows])
    np.testing.assert_array_equal(sampled.lse, whole.lse[:, :, rows])
    assert_formula_gives_the_bytes_of(whole, sampled)


def assert_formula_gives_the_bytes_of(whole, sampled):
    entry = ALGORITHMS[whole.algorithm]
    traffic = whole_traffic(sampled, entry)
    assert traffic.bytes == counted_bytes(whole)
    assert traffic.modelled
    assert traffic.agrees is (True if entry.has_formula else None)
    if entry.has_formula:
        more = replace(sampled, tensor_bytes_read=sampled.tensor_bytes_read + 1)
        assert whole_traffic(more, entry).agrees is False


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_sampled_heads_do_what_they_do_in_the_whole_run(algorithm):
    entry = ALGORITHMS[algorithm]
    whole, sampled = run_traced(GROUPED, algorithm), run_traced(GROUPED, algorithm, WHOLE_GROUPS)
    names = WHOLE_GROUPS.key_heads(GROUPED) if entry.packs_heads else WHOLE_GROUPS.heads
    kept = np.isin(whole.batch_head, names)
    where = ("kernel", "program", "batch_head", "q_tile", "kv_tile")
    for name in (*where, "tensor_bytes_read", "tensor_bytes_written"):
        np.testing.assert_array_equal(getattr(sampled, name), getattr(whole, name)[kept], err_msg=name)
    assert sampled.problem == GROUPED
    assert judge_trace(sampled).passes
    assert_formula_gives_the_bytes_of(whole, sampled)


def test_the_sampled_rows_are_judged_by_the_rule_and_one_of_them_may_be_picked():
    sampled, picked = (run_traced(RAGGED, "flash2", Sample((1,), (0, 2)), row=row) for row in (None, 2))
    assert judge_trace(sampled).passes
    np.testing.assert_array_equal(picked.matrices["P"], sampled.matrices["P"][:, 2:3])
    worse = sampled.output.copy()
    worse[0, 0, -1, 0] += 1
    assert judge_trace(replace(sampled, output=worse)).max_error == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize(
    ("algorithm", "sample"),
    [("flash1", Sample((0,), (0,))), ("flash2", Sample((2,), (0,))), ("flash2", Sample((0,), (5,)))],
)
def test_a_part_that_cannot_run_alone_is_refused(algorithm, sample):
    with pytest.raises(InvalidProblem, match="cannot run this part alone"):
        run_traced(RAGGED, algorithm, sample)
