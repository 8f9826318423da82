"""The numbers of small tiles: what a program had in hand, held against float64 and against each other."""

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import InvalidProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace import Trace
from tests.kernels.helpers import tiny

PROBLEM = tiny(10, 14, 4, 4, q_heads=2, mask="causal")
"""The last query tile has 2 rows, the last key tile 2 keys, and the mask cuts tiles."""
SOFTMAX = ("flash2", "flash1")
BACKWARD = ("backward", "backward_q_outer", "backward_kv_outer")


@pytest.fixture(scope="module")
def traces():
    return {name: run_traced(PROBLEM, name) for name in (*SOFTMAX, *BACKWARD, "split_kv", "standard")}


def tiles_of(trace, step):
    """float64 Q, K, V and dO of a step's tiles, with the rows that exist, and the mask between them."""
    problem = trace.problem
    query, key, value = (tensor.double().numpy() for tensor in make_inputs(problem, "cpu"))
    gradient = make_d_output(problem, "cpu").double().numpy()
    head = trace.batch_head[step]
    rows = np.arange(problem.q_len)[trace.q_tile[step] * problem.block_m :][: problem.block_m]
    keys = np.arange(problem.kv_len)[trace.kv_tile[step] * problem.block_n :][: problem.block_n]
    seen = keys[None, :] <= rows[:, None] + problem.kv_len - problem.q_len
    return query[0, head, rows], key[0, 0, keys], value[0, 0, keys], gradient[0, head, rows], seen


def steps_of(trace, name):
    """Steps about two tiles that have a matrix of that name, and their matrices."""
    steps = np.flatnonzero(np.isfinite(trace.matrices[name][:, 0, 0]) & (trace.kv_tile >= 0))
    return [(step, {each: values[step] for each, values in trace.matrices.items()}) for step in steps]


@pytest.mark.parametrize("name", [*SOFTMAX, *BACKWARD])
def test_tiles_and_scores_are_those_of_the_inputs(traces, name):
    trace = traces[name]
    steps = steps_of(trace, "QK^T")
    assert len(steps) >= 18
    for step, recorded in steps:
        query, key, value, gradient, _ = tiles_of(trace, step)
        n, m = len(query), len(key)
        assert np.array_equal(recorded["Q"][:n], query)
        assert np.array_equal(recorded["K"][:m], key)
        assert np.array_equal(recorded["V"][:m], value)
        assert np.allclose(recorded["QK^T"][:n, :m], query @ key.T, atol=1e-5)
        if name in BACKWARD:
            assert np.array_equal(recorded["dO"][:n], gradient)
            assert np.allclose(recorded["dP"][:n, :m], gradient @ value.T, atol=1e-5)


@pytest.mark.parametrize("name", SOFTMAX)
def test_a_step_follows_from_its_own_matrices(traces, name):
    """P, the rescaled O and the new O, each from what the step had in hand before it."""
    trace = traces[name]
    before = {}  # row sum and O after the last step of each query tile
    for step, recorded in steps_of(trace, "QK^T"):
        query, key, value, _, seen = tiles_of(trace, step)
        n, m = len(query), len(key)
        scores = np.where(seen, recorded["QK^T"][:n, :m] * PROBLEM.scale, -np.inf)
        if np.isfinite(recorded["S"][:n, :m]).any():
            assert np.allclose(recorded["S"][:n, :m] * PROBLEM.scale, scores, atol=1e-6)
        p = np.exp(scores - np.nan_to_num(trace.row_max[step][:n], neginf=0.0)[:, None])
        assert np.allclose(recorded["P"][:n, :m], p, atol=1e-6)
        where = (trace.batch_head[step], trace.q_tile[step])
        old_sum, old_acc = before.get(where, (0, np.zeros((n, 16))))
        alpha, row_sum = trace.alpha[step][:n], trace.row_sum[step][:n]
        factor = alpha if name == "flash2" else alpha * old_sum / np.where(row_sum > 0, row_sum, 1)
        assert np.allclose(recorded["O rescaled"][:n], factor[:, None] * old_acc, atol=1e-5)
        added = p.astype(np.float16).astype(np.float64) @ value
        added = added if name == "flash2" else np.nan_to_num(added / row_sum[:, None])
        assert np.allclose(trace.acc[step][:n], recorded["O rescaled"][:n] + added, atol=1e-3)
        before[where] = row_sum, trace.acc[step][:n]


@pytest.mark.parametrize("name", BACKWARD)
def test_the_gradient_of_the_scores_follows_from_its_factors(traces, name):
    trace = traces[name]
    scale = 1.0 if name == "backward" else PROBLEM.scale
    for step, recorded in steps_of(trace, "dS"):
        query, key, *_, seen = tiles_of(trace, step)
        n, m = len(query), len(key)
        scores = recorded["QK^T"][:n, :m] * PROBLEM.scale
        p = np.where(seen, np.exp(scores - recorded["lse"][:n]), 0)
        assert np.allclose(np.where(seen, recorded["P"][:n, :m], 0), p, atol=1e-6)
        ds = p * (recorded["dP"][:n, :m] - recorded["D"][:n]) * scale
        assert np.allclose(recorded["dS"][:n, :m], ds, atol=2e-3)


def test_standard_attention_has_the_weights_that_it_writes_and_reads(traces):
    trace = traces["standard"]
    for step, recorded in steps_of(trace, "P"):
        query, key, *_, seen = tiles_of(trace, step)
        n, first = len(query), 4 * trace.q_tile[step]
        lse = trace.lse[0, trace.batch_head[step], first : first + n, None]
        p = np.where(seen, np.exp(query @ key.T * PROBLEM.scale - lse), 0)
        assert np.allclose(recorded["P"][:n, : len(key)], p, atol=2e-3)  # float16 scores


@pytest.mark.parametrize("name", ["backward", "backward_kv_outer"])
def test_d_is_a_row_of_o_times_one_of_d_o(traces, name):
    out, gradient, delta = (traces[name].matrices[each][:6] for each in ("O", "dO", "D"))
    assert np.allclose((out * gradient).sum(axis=2, keepdims=True), delta, atol=1e-5)
    assert np.isnan(traces[name].matrices["O"][6:]).all()  # two heads of three query tiles each


def test_the_combine_weighs_each_part_by_its_lse(traces):
    trace = traces["split_kv"]
    steps = np.flatnonzero(np.isfinite(trace.matrices["lse"][:, 0, 0]))
    assert len(steps) > 0
    weights = np.exp(trace.matrices["partial lse"][steps] - trace.matrices["lse"][steps])[:, :, 0]
    exist = np.isfinite(trace.weight[steps])
    assert np.allclose(weights[exist], trace.weight[steps][exist], atol=1e-6)
    for program in np.unique(trace.program[steps]):
        own = steps[trace.program[steps] == program]
        weighted = (trace.weight[own][:, :, None] * trace.matrices["partial O"][own]).cumsum(axis=0)
        rows = np.isfinite(weighted)
        assert np.allclose(trace.matrices["O"][own][rows], weighted[rows], atol=1e-5)


def test_larger_tiles_and_longer_rows_are_not_recorded():
    assert run_traced(PROBLEM.with_(block_n=32), "flash2").matrices is None
    assert run_traced(PROBLEM.with_(head_dim=128), "flash2").matrices is None
    assert run_traced(PROBLEM.with_(block_m=32), "standard").matrices is None


@pytest.mark.parametrize("name", [*SOFTMAX, *BACKWARD, "split_kv"])
def test_one_picked_row_has_the_numbers_that_all_rows_have(traces, name):
    """In every step of every query tile; what is cut along the keys alone is left out."""
    whole, picked = traces[name], run_traced(PROBLEM, name, row=1)
    assert (whole.matrix_row, picked.matrix_row) == (None, 1)
    figures = [kernel.figure for kernel in ALGORITHMS[name].kernels if kernel.figure]
    named = [(figure.slot(each.slot).rows, each.name) for figure in figures for each in figure.matrices]
    assert picked.matrices.keys() == {each for rows, each in named if rows == "q_tile"}
    for each, values in picked.matrices.items():
        all_rows = whole.matrices[each] if each in whole.matrices else getattr(whole, each)
        assert values.shape[1] == 1
        assert np.array_equal(values, all_rows[:, 1:2], equal_nan=True)


@pytest.mark.parametrize("name", SOFTMAX)
def test_a_row_of_large_tiles_follows_from_the_inputs(name):
    problem = tiny(40, 70, 32, 64, head_dim=80, mask="causal")
    trace = run_traced(problem, name, row=5)
    steps = steps_of(trace, "QK^T")
    assert len(steps) == 3  # the mask leaves the first query tile one key tile
    for step, recorded in steps:
        query, key, *_, seen = tiles_of(trace, step)
        scores = query[5] @ key.T * problem.scale
        assert np.allclose(recorded["QK^T"][0, : len(key)] * problem.scale, scores, atol=1e-5)
        p = np.where(seen[5], np.exp(scores - trace.row_max[step, 5]), 0)
        assert np.allclose(recorded["P"][0, : len(key)], p, atol=1e-6)
        assert np.array_equal(recorded["acc"][0], trace.acc[step, 5])
    assert Trace.load(trace.without_acc().to_bytes()).acc is None


def test_a_row_that_no_tile_has_is_refused():
    with pytest.raises(InvalidProblem, match="expected 0 to 3"):
        run_traced(PROBLEM, "flash2", row=4)
    with pytest.raises(InvalidProblem, match="an algorithm that shows its numbers"):
        run_traced(PROBLEM, "standard", row=0)


@pytest.mark.parametrize("entry", ALGORITHMS.values(), ids=lambda entry: entry.name)
def test_a_figure_speaks_of_phases_and_slots_that_exist(entry):
    for kernel in entry.kernels:
        if kernel.figure is None:
            continue
        phases = {phase.name for phase in kernel.phases}
        slots = {slot.name for slot in kernel.figure.slots}
        assert {matrix.phase for matrix in kernel.figure.matrices} <= phases
        assert {matrix.slot for matrix in kernel.figure.matrices} == slots
        for product in kernel.figure.products:
            assert product.phase in phases
            assert {product.result, product.first, product.second} <= slots
