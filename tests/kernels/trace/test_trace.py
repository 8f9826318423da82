"""The trace as a file: what survives it, what is refused, what is left out."""

import io
import json
from dataclasses import fields

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace import trace
from kernels.trace.trace import InvalidTrace, LaunchInfo, Trace
from tests.kernels.trace.problems import PROBLEMS


def test_a_trace_survives_its_file(tmp_path):
    run = run_traced(PROBLEMS[2])
    run.save(tmp_path / "run.npz")
    again = Trace.load(tmp_path / "run.npz")
    for name, value in vars(run).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(again, name), value)
        elif name == "matrices":
            np.testing.assert_equal(again.matrices, value)
        else:
            assert getattr(again, name) == value


def test_another_version_is_refused_by_name(monkeypatch):
    run = run_traced(AttentionProblem(q_len=4, kv_len=4, head_dim=16, block_m=4, block_n=32))
    monkeypatch.setattr(trace, "FORMAT_VERSION", 7)
    newer = run.to_bytes()
    monkeypatch.undo()
    with pytest.raises(
        InvalidTrace,
        match="this is flash-attention-trace version 7; expected flash-attention-trace version 4",
    ):
        Trace.load(newer)


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
        lambda header: header["device"].update(sm_count="four"),
        lambda header: header["launches"][0].pop("num_warps"),
    ],
    ids=["key missing", "no problem", "invalid problem", "another type", "launch incomplete"],
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
