"""Every step of a trace against the float64 oracle and against an independent count of bytes."""

import io
import json
import os
import zipfile
from collections import Counter, defaultdict
from dataclasses import fields

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.device.backend import DeviceInfo
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import oracle
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_inputs
from kernels.problem.tiles import visited_tiles
from kernels.trace import trace
from kernels.trace.trace import InvalidTrace, LaunchInfo, Trace
from tests.kernels.helpers import problem_id, run_forward

PROBLEMS = [
    AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=32),
    AttentionProblem(
        q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=16, mask="causal", dtype="bfloat16"
    ),
    AttentionProblem(q_len=45, kv_len=77, head_dim=24, block_m=16, block_n=16, mask="causal"),
    AttentionProblem(
        q_len=77, kv_len=45, head_dim=20, block_m=16, block_n=16, mask="causal", dtype="float32"
    ),
    AttentionProblem(
        q_len=33, kv_len=50, head_dim=16, block_m=16, block_n=16, batch=2, q_heads=4, kv_heads=2
    ),
    AttentionProblem(
        q_len=17, kv_len=13, head_dim=16, block_m=4, block_n=8, mask="causal", inputs="growing_max"
    ),
    AttentionProblem(q_len=40, kv_len=64, head_dim=16, block_m=16, block_n=16, inputs="large"),
    AttentionProblem(
        q_len=60, kv_len=50, head_dim=16, block_m=16, block_n=16, mask="window", window_left=9, window_right=4
    ),
]


traced = pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)


def rows_of(run, step):
    first = int(run.q_tile[step]) * run.problem.block_m
    return slice(first, min(first + run.problem.block_m, run.problem.q_len))


def keys_seen(run, step):
    """Keys of the tiles that the step's query tile has visited once the step is done."""
    if run.kv_tile[step] < 0:
        return torch.arange(0)
    first_tile = visited_tiles(run.problem, int(run.q_tile[step])).first
    return torch.arange(
        first_tile * run.problem.block_n,
        min((int(run.kv_tile[step]) + 1) * run.problem.block_n, run.problem.kv_len),
    )


@pytest.mark.parametrize("algorithm", ["flash2", "flash1"])
@traced
def test_every_step_matches_the_float64_oracle(problem, algorithm):
    run = run_traced(problem, algorithm)
    exact = oracle(*make_inputs(problem), scale=problem.scale, band=problem.band)
    unit_roundoff = torch.finfo(getattr(torch, problem.dtype)).eps
    size = float(exact.value.abs().max())
    row_max_before = {}
    for step in np.flatnonzero(run.q_tile >= 0):
        head, rows = divmod(int(run.batch_head[step]), problem.q_heads), rows_of(run, step)
        count = rows.stop - rows.start
        m, l, acc = (tensor.numpy() for tensor in exact.after_keys(head, rows, keys_seen(run, step)))
        got_m, got_l, got_acc = run.row_max[step, :count], run.row_sum[step, :count], run.acc[step, :count]
        scale = np.maximum(np.abs(np.where(np.isinf(m), 0, m)), 1)
        finite = np.isfinite(m)
        assert np.array_equal(np.isfinite(got_m), finite)
        # Scores are float32 sums of products that are exact in float32: a few roundings of 6e-8 each.
        assert (np.abs(got_m[finite] - m[finite]) <= 2e-6 * scale[finite]).all()
        # An error e of a score moves its exponential by a factor exp(e); the sum and the accumulator follow.
        np.testing.assert_allclose(got_l, l, rtol=1e-5 * scale.max())
        # P is rounded to the type of the inputs before P V. FlashAttention-1 keeps O normalised,
        # FlashAttention-2 in units of its row sum.
        if algorithm == "flash1":
            acc, units = np.divide(acc, l[:, None], where=l[:, None] > 0, out=np.zeros_like(acc)), 1
        else:
            units = max(l.max(), 1)
        assert np.abs(got_acc - acc).max() <= (unit_roundoff + 1e-5 * scale.max()) * size * units
        place = int(run.batch_head[step]), int(run.q_tile[step])
        before = row_max_before.get(place, np.full(count, -np.inf))
        if run.kv_tile[step] >= 0:
            with np.errstate(invalid="ignore"):
                alpha = np.where(np.isinf(before), 0.0, np.exp(before - m))
            np.testing.assert_allclose(run.alpha[step, :count], alpha, rtol=2e-5 * scale.max(), atol=1e-30)
        assert np.isnan(run.row_max[step, count:]).all()
        row_max_before[place] = m


@traced
def test_steps_visit_the_tiles_of_tiles_py_in_order(problem):
    run = run_traced(problem)
    assert np.all(np.diff(run.program) >= 0)
    for program in range(problem.batch * problem.q_heads * problem.q_tiles):
        steps = np.flatnonzero(run.program == program)
        assert set(run.q_tile[steps]) == {program % problem.q_tiles}
        assert set(run.batch_head[steps]) == {program // problem.q_tiles}
        visited = visited_tiles(problem, program % problem.q_tiles)
        assert list(run.kv_tile[steps]) == (list(range(visited.first, visited.end)) or [-1])


@traced
def test_tracing_changes_no_result(problem):
    run = run_traced(problem)
    out, lse = run_forward(problem)
    assert np.array_equal(run.output, out.float().cpu().numpy())
    assert np.array_equal(run.lse, lse.cpu().numpy())


@traced
def test_bytes_are_the_modelled_requests(problem):
    assert run_traced(problem).total_bytes == ALGORITHMS["flash2"].requested_bytes(problem)


@pytest.mark.parametrize("algorithm", ["flash2", "flash1"])
@traced
def test_distance_from_the_final_output_ends_at_its_rounding(problem, algorithm):
    run = run_traced(problem, algorithm)
    steps = np.flatnonzero(run.q_tile >= 0)
    places = {(int(run.batch_head[step]), int(run.q_tile[step])): step for step in steps}
    last = list(places.values())
    eps = torch.finfo(getattr(torch, problem.dtype)).eps
    assert np.nanmax(run.output_distance[last]) <= eps * np.abs(run.output).max()


TENSORS = {
    "Q": ("query",),
    "K": ("key",),
    "V": ("value",),
    "O": ("out", "state_o"),
    "lse": ("lse_ptr",),
    "m": ("state_m",),
    "l": ("state_l",),
    "partial O": ("partial_o_ptr",),
    "partial lse": ("partial_lse_ptr",),
    "dO": ("d_out",),
    "D": ("delta_ptr",),
    "dQ": ("d_query",),
    "dK": ("d_key", "sum_dk"),
    "dV": ("d_value", "sum_dv"),
}
"""The arguments by which kernels name a tensor."""
NAMES = {argument: tensor for tensor, arguments in TENSORS.items() for argument in arguments}


@pytest.fixture
def requests(monkeypatch):
    """Every masked load and store of the interpreter, counted from outside the kernels.

    A list of (kernel, program, tensor, direction, bytes).
    """
    if DEVICE != "cpu":
        pytest.skip("counts the interpreter's requests")
    from triton.runtime import interpreter

    found, launched = [], {}
    launch = interpreter.GridExecutor.__call__
    load, store = (
        interpreter.InterpreterBuilder.create_masked_load,
        interpreter.InterpreterBuilder.create_masked_store,
    )

    def launch_noted(self, *args, **arguments):
        bound = dict(zip(self.arg_names, args, strict=False)) | arguments
        launched.clear()
        launched["kernel"] = self.fn.__name__
        launched["ranges"] = [
            (NAMES[name], storage.data_ptr(), storage.data_ptr() + storage.nbytes())
            for name, value in bound.items()
            if name in NAMES and value is not None
            for storage in [getattr(value, "base", value).untyped_storage()]
        ]
        return launch(self, *args, **arguments)

    def note(pointers, mask, direction):
        itemsize = pointers.get_element_ty().primitive_bitwidth // 8
        asked = mask if isinstance(mask, np.ndarray) else mask.data  # descriptors hand over the bare array
        addresses = np.broadcast_to(pointers.data, asked.shape)[asked]
        for tensor, start, end in launched["ranges"]:
            if addresses.size and start <= int(addresses.min()) < end:
                found.append(
                    (
                        launched["kernel"],
                        interpreter.interpreter_builder.grid_idx,
                        tensor,
                        direction,
                        addresses.size * itemsize,
                    )
                )

    def counted_load(self, pointers, mask, *rest, **named):
        note(pointers, mask, "read")
        return load(self, pointers, mask, *rest, **named)

    def counted_store(self, pointers, value, mask, *rest, **named):
        note(pointers, mask, "write")
        return store(self, pointers, value, mask, *rest, **named)

    monkeypatch.setattr(interpreter.GridExecutor, "__call__", launch_noted)
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_masked_load", counted_load)
    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_masked_store", counted_store)
    return found


def in_order(entries):
    """The non-zero requests of each program, in their order; programs in any order.

    {(kernel, tensor, direction): Counter of the tuples of sizes, one per program}.
    """
    programs = defaultdict(lambda: defaultdict(list))
    for kernel, program, tensor, direction, size in entries:
        if size:
            programs[kernel, tensor, direction][program].append(int(size))
    return {key: Counter(tuple(sizes) for sizes in of.values()) for key, of in programs.items()}


@pytest.mark.parametrize(
    "algorithm", [name for name, algorithm in ALGORITHMS.items() if algorithm.runs_in == "triton"]
)
@traced
def test_bytes_match_an_independent_count_of_loads_and_stores(problem, algorithm, requests):
    run = run_traced(problem, algorithm)
    entries = [
        (run.kernels[run.kernel[step]], int(run.program[step]), tensor, direction, amounts[step, column])
        for direction, amounts in (("read", run.tensor_bytes_read), ("write", run.tensor_bytes_written))
        for step in range(run.steps)
        for column, tensor in enumerate(run.tensors)
    ]
    counted = in_order(entry for entry in requests if entry[0] in run.kernels)
    claimed = in_order(entries)
    assert claimed.keys() == counted.keys()
    for key, programs in claimed.items():
        if key[:2] == ("_attn_combine", "partial lse"):  # its first step claims two loads at once
            assert sum(sum(sizes) * n for sizes, n in programs.items()) == sum(
                sum(sizes) * n for sizes, n in counted[key].items()
            )
        else:
            assert programs == counted[key], key


def test_growing_max_rescales_every_step_and_falling_max_never():
    base = AttentionProblem(q_len=32, kv_len=128, head_dim=32, block_m=32, block_n=16)
    growing = run_traced(base.with_(inputs="growing_max"))
    falling = run_traced(base.with_(inputs="falling_max"))
    assert (growing.alpha[1:] < 1).all()
    assert (falling.alpha[1:] == 1).all()


def test_accumulators_are_left_out_beyond_the_limit(monkeypatch):
    problem = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=16, block_n=16)
    monkeypatch.setattr("kernels.primitives.recorder.ACC_LIMIT_BYTES", 4 * 16 * 16 * 4 - 1)
    run = run_traced(problem)
    assert run.acc is None
    assert run.output_distance is None
    assert np.isfinite(run.row_max).all()


def test_a_trace_survives_its_file(tmp_path):
    run = run_traced(PROBLEMS[2])
    run.save(tmp_path / "run.npz")
    again = Trace.load(tmp_path / "run.npz")
    for name, value in vars(run).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(again, name), value)
        else:
            assert getattr(again, name) == value


def test_other_versions_and_other_files_are_refused_by_name(tmp_path, monkeypatch):
    run = run_traced(AttentionProblem(q_len=4, kv_len=4, head_dim=16, block_m=4, block_n=4))
    monkeypatch.setattr(trace, "FORMAT_VERSION", 7)
    newer = run.to_bytes()
    monkeypatch.undo()
    with pytest.raises(
        InvalidTrace,
        match="this is flash-attention-trace version 7; expected flash-attention-trace version 1",
    ):
        Trace.load(newer)
    with pytest.raises(InvalidTrace, match="not a trace file"):
        Trace.load(b"hello")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(InvalidTrace, match="no readable header"):
        Trace.load(tmp_path / "other.npz")
    np.savez(tmp_path / "pickled.npz", header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InvalidTrace, match="not a trace file"):
        Trace.load(tmp_path / "pickled.npz")
    with pytest.raises(InvalidTrace, match="not a trace file"):
        Trace.load(run.to_bytes()[:-40])


def test_a_trace_with_arrays_of_wrong_shape_is_refused():
    run = run_traced(AttentionProblem(q_len=4, kv_len=4, head_dim=16, block_m=4, block_n=4))
    object.__setattr__(run, "row_sum", run.row_sum[:, :2])
    with pytest.raises(InvalidTrace, match=r"row_sum has shape \(1, 2\), expected \(1, 4\)"):
        Trace.load(run.to_bytes())


FILED = AttentionProblem(
    batch=2, q_heads=6, kv_heads=3, q_len=5, kv_len=7, head_dim=16, block_m=4, block_n=8, dtype="float32"
)
STEPS, TENSORS = 9, ("Q", "K")
SHAPES = {
    **dict.fromkeys(("kernel", "program", "batch_head", "q_tile", "kv_tile"), (STEPS,)),
    **dict.fromkeys(("sm", "start_ns", "end_ns"), (STEPS,)),
    **dict.fromkeys(("row_max", "row_sum", "alpha", "row_share", "weight", "output_distance"), (STEPS, 4)),
    **dict.fromkeys(("tensor_bytes_read", "tensor_bytes_written"), (STEPS, 2)),
    "gradient_distance": (STEPS, 3),
    "acc": (STEPS, 4, 16),
    **dict.fromkeys(("acc_dk", "acc_dv"), (STEPS, 8, 16)),
    **dict.fromkeys(("output", "d_query"), (2, 6, 5, 16)),
    **dict.fromkeys(("lse", "delta"), (2, 6, 5)),
    **dict.fromkeys(("d_key", "d_value"), (2, 3, 7, 16)),
}
"""Of every array that a trace may hold."""


def filed(**changed):
    """A made-up trace with every array, of which some are changed."""
    return Trace(
        problem=FILED,
        algorithm="flash2",
        device=DeviceInfo("interpreter", "made up", "t", "t", "p"),
        kernels=("_attn_fwd",),
        launches=(LaunchInfo(4, 2, shared_bytes=1024, registers=32),),
        recorded_at="2026-01-01T00:00:00",
        tensors=TENSORS,
        **{name: np.full(shape, index) for index, (name, shape) in enumerate(SHAPES.items())} | changed,
    )


@pytest.mark.parametrize("compress", [True, False])
def test_every_array_and_every_word_survives_the_file(compress):
    again = Trace.load(io.BytesIO(filed().to_bytes(compress)))
    for field in fields(Trace):
        value = getattr(filed(), field.name)
        if field.name in SHAPES:
            np.testing.assert_array_equal(getattr(again, field.name), value)
        else:
            assert getattr(again, field.name) == value


def test_a_file_is_compressed_and_bytes_are_not_unless_it_is_asked_for(tmp_path):
    filed().save(tmp_path / "run.npz")
    size, plain = (tmp_path / "run.npz").stat().st_size, len(filed().to_bytes())
    assert size == len(filed().to_bytes(compress=True)) < plain / 2


def test_a_launch_tells_no_shared_memory_and_no_registers_unless_the_compiler_did():
    assert LaunchInfo(4, 2) == LaunchInfo(num_warps=4, num_stages=2, shared_bytes=0, registers=0)


@pytest.mark.parametrize("name", SHAPES)
def test_no_array_may_have_another_shape_than_the_header_says(name):
    for axis in range(len(SHAPES[name])):
        longer = np.concatenate([np.zeros(SHAPES[name]), np.zeros(SHAPES[name])], axis)
        with pytest.raises(InvalidTrace, match=r"a damaged trace file: \w+ has shape .*, expected"):
            Trace.load(filed(**{name: longer}).to_bytes())
    with pytest.raises(InvalidTrace, match=r"a damaged trace file: \w+ has shape .*, expected"):
        Trace.load(filed(**{name: np.array(1)}).to_bytes())


@pytest.mark.parametrize(
    "damage",
    [
        lambda header: header.pop("kernels"),
        lambda header: header.update(problem=7),
        lambda header: header["problem"].update(q_len=0),
        lambda header: header["device"].update(wheels=4),
        lambda header: header["launches"][0].pop("num_warps"),
    ],
    ids=["key missing", "no problem", "invalid problem", "unknown fact", "launch incomplete"],
)
def test_a_header_that_does_not_describe_a_trace_is_refused(damage):
    with np.load(io.BytesIO(filed().to_bytes())) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    damage(header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    damaged = io.BytesIO()
    np.savez(damaged, **arrays)
    with pytest.raises(InvalidTrace, match="a damaged trace file"):
        Trace.load(damaged.getvalue())


class Pickled:
    """An object whose unpickling makes a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("name", ["header", "kernel"])
def test_a_file_runs_nothing_when_it_is_read(tmp_path, name):
    with np.load(io.BytesIO(filed().to_bytes())) as file:
        arrays = dict(file)
    np.savez(tmp_path / "run.npz", **arrays | {name: np.array([Pickled(tmp_path / "made")], dtype=object)})
    with pytest.raises(InvalidTrace):
        Trace.load(tmp_path / "run.npz")
    assert not (tmp_path / "made").exists()


def test_a_file_that_unpacks_to_more_than_the_limit_is_refused(monkeypatch):
    file = filed().to_bytes(compress=True)
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    assert unpacked > len(file)
    monkeypatch.setattr(trace, "MAX_FILE_BYTES", unpacked)
    assert Trace.load(file).steps == STEPS
    monkeypatch.setattr(trace, "MAX_FILE_BYTES", unpacked - 1)
    with pytest.raises(InvalidTrace, match=r"unpacks to 0\.0 GB; at most 0\.0 GB is read"):
        Trace.load(file)


def test_bytes_are_added_up_over_tensors_and_over_steps():
    read, written = np.arange(18).reshape(9, 2), np.arange(18).reshape(9, 2) * 100
    run = filed(tensor_bytes_read=read, tensor_bytes_written=written)
    assert run.bytes_read.tolist() == [4 * step + 1 for step in range(9)]
    assert run.bytes_written.tolist() == [400 * step + 100 for step in range(9)]
    assert run.total_bytes == 153 + 15300


def test_what_is_left_out_is_none_and_everything_else_stays():
    for run, left_out in (
        (filed().without_acc(), {"acc", "acc_dk", "acc_dv"}),
        (filed().without_results(), {"output", "d_query", "d_key", "d_value"}),
    ):
        assert {name for name in SHAPES if getattr(run, name) is None} == left_out
        again = Trace.load(run.to_bytes())
        assert {name for name in SHAPES if getattr(again, name) is None} == left_out


def test_an_unknown_algorithm_is_refused_by_name():
    with pytest.raises(
        InvalidProblem, match="algorithm='flash9' is not accepted: expected one of flash2, flash1"
    ):
        run_traced(AttentionProblem(), "flash9")
