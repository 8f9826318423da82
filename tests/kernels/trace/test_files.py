"""Files of traces and of lanes: what survives them, what is refused, and that nothing in them is run."""

import io
import json
import os
import zipfile
from dataclasses import fields

import numpy as np
import pytest

from kernels.device.backend import DeviceInfo
from kernels.file_format import UnreadableFile
from kernels.problem import AttentionProblem
from kernels.trace.trace import LaunchInfo, Trace
from tests.kernels.helpers import tiny
from tests.lanes import plain_lanes

FILED = tiny(5, 7, 4, 8, batch=2, q_heads=6, kv_heads=3, dtype="float32")
STEPS = 9
SHAPES = {
    **dict.fromkeys(("kernel", "program", "batch_head", "q_tile", "kv_tile", "page"), (STEPS,)),
    **dict.fromkeys(("sm", "start_ns", "end_ns"), (STEPS,)),
    **dict.fromkeys(("row_max", "row_sum", "alpha", "row_share", "weight"), (STEPS, 4)),
    **dict.fromkeys(("tensor_bytes_read", "tensor_bytes_written"), (STEPS, 2)),
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
        tensors=("Q", "K"),
        **{name: np.full(shape, index) for index, (name, shape) in enumerate(SHAPES.items())} | changed,
    )


WITH_MATRICES = filed(matrices={"P": np.ones((STEPS, 4, 8)), "D": np.zeros((STEPS, 4, 1))})


@pytest.fixture(params=[WITH_MATRICES, plain_lanes()], ids=["trace", "lanes"])
def record(request):
    return request.param


def saved(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def changed(record, change=None, **arrays):
    """The file of a record with other arrays, and with a change to its header."""
    content = record.arrays() | arrays
    if change:
        header = json.loads(content["header"].tobytes())
        change(header)
        content["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return saved(**content)


@pytest.mark.parametrize("compress", [True, False])
def test_everything_survives_the_file(record, compress, tmp_path):
    record.save(tmp_path / "file.npz", compress)
    assert (tmp_path / "file.npz").read_bytes() == record.to_bytes(compress)
    again = type(record).load(tmp_path / "file.npz")
    for field in fields(record):
        np.testing.assert_equal(getattr(again, field.name), getattr(record, field.name))
    header = type(record).header_of(tmp_path / "file.npz")
    assert AttentionProblem(**header["problem"]) == record.problem


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


FOREIGN = {
    "empty": (b"", "No data left in file"),
    "one array": (npy(np.ones(3)), "context manager"),
    "archive behind an array": (npy(np.ones(3)) + saved(header=np.ones(3, np.uint8)), "ndarray"),
    "other arrays": (saved(a=np.ones(3)), "no readable header"),
    "other header": (saved(header=np.ones(3)), "no readable header"),
    "deep header": (saved(header=np.frombuffer(b"[" * 100_000, np.uint8)), "no readable header"),
    "listed header": (saved(header=np.frombuffer(b"[1]", np.uint8)), "names no format"),
    "pickled header": (saved(header=np.array([{"a": 1}], dtype=object)), "allow_pickle=False"),
    "no array": (zipped("header", json.dumps({})), "no readable header"),
    "unclosed array header": (zipped("header.npy", b"\x93NUMPY\x01\x00\x06\x00{'a':("), "."),
    "another version": (changed(filed(), lambda header: header.update(version=7)), "version 7; expected"),
}


@pytest.mark.parametrize(("data", "reason"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_with_the_reason(data, reason):
    with pytest.raises(UnreadableFile, match=reason):
        Trace.load(data)


def test_a_file_that_is_not_there_or_cut_off_is_refused(tmp_path):
    with pytest.raises(UnreadableFile, match="No such file"):
        Trace.load(tmp_path / "missing.npz")
    whole = filed().to_bytes(compress=True)
    for size in range(0, len(whole), 97):
        with pytest.raises(UnreadableFile):
            Trace.load(whole[:size])


def test_a_changed_byte_gives_a_file_or_a_refusal():
    whole, refused = filed().to_bytes(compress=True), 0
    for place in range(0, len(whole), 23):
        try:
            Trace.load(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        except UnreadableFile:
            refused += 1
    assert refused > len(whole) / 23 / 2


class Pickled:
    """An object whose unpickling makes a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("name", ["header", "another"])
def test_a_file_runs_nothing_when_it_is_read(record, tmp_path, name):
    damaged = changed(record, **{name: np.array([Pickled(tmp_path / "made")], dtype=object)})
    with pytest.raises(UnreadableFile):
        type(record).load(damaged)
    assert not (tmp_path / "made").exists()


WRONG_SAMPLES = ({"heads": []}, {"heads": ["1"]}, [])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda header: header.pop("kernels"), "kernels"),
        (lambda header: header.update(problem=7), "problem"),
        (lambda header: header["problem"].update(q_len=0), "q_len=0 is not accepted"),
        (lambda header: header["device"].update(sm_count="four"), "sm_count"),
        (lambda header: header["launches"][0].pop("num_warps"), "num_warps"),
        *(
            (lambda header, each=each: header.update(sample=each), "sample")
            for each in ({"heads": []}, {"heads": ["1"]}, [])
        ),
    ],
)
def test_a_header_that_does_not_describe_the_trace_is_refused_by_name(change, named):
    with pytest.raises(UnreadableFile, match=named):
        Trace.load(changed(filed(), change))
