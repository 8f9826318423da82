"""Files that are neither a trace nor lanes, or damaged: one of the two errors, and nothing is run."""

import io
import json
import os
import zipfile

import numpy as np
import pytest

from kernels.trace import InvalidTrace, Trace, lanes, trace
from kernels.trace.lanes import InvalidLanes, Lanes
from tests.kernels.primitives.test_assemble_lanes import made_lanes
from tests.kernels.trace.test_trace import filed

READERS = {
    "trace": (Trace, InvalidTrace, "not a trace file: ", trace),
    "lanes": (Lanes, InvalidLanes, "not a file of lanes: ", lanes),
}


@pytest.fixture(params=READERS)
def reader(request):
    return READERS[request.param]


@pytest.fixture
def whole(reader):
    return made_lanes().to_bytes() if reader[0] is Lanes else filed().to_bytes(compress=True)


def saved(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


FOREIGN = {
    "empty": (b"", "File is not a zip file"),
    "text": (b"hello", "File is not a zip file"),
    "one array": (npy(np.ones(3)), "File is not a zip file"),
    "archive behind other bytes": (b"hello" + saved(header=np.ones(3, np.uint8)), "pickled"),
    "archive behind an array": (npy(np.ones(3)) + saved(header=np.ones(3, np.uint8)), "ndarray"),
    "empty archive": (saved(), "no readable header"),
    "other arrays": (saved(a=np.ones(3)), "no readable header"),
    "other header": (saved(header=np.ones(3)), "no readable header"),
    "deep header": (saved(header=np.frombuffer(b"[" * 100_000, np.uint8)), "no readable header"),
    "listed header": (saved(header=np.frombuffer(b"[1]", np.uint8)), "header is not a JSON object"),
    "pickled header": (saved(header=np.array([{"a": 1}], dtype=object)), "allow_pickle=False"),
    "no array": (zipped("header", json.dumps({})), "'header' in it is not an array"),
    "unclosed array header": (zipped("header.npy", b"\x93NUMPY\x01\x00\x06\x00{'a':("), "."),
}


@pytest.mark.parametrize(("data", "reason"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_with_the_reason(reader, data, reason):
    cls, error, words, _ = reader
    with pytest.raises(error, match=f"^{words}.*{reason}"):
        cls.load(data)


def test_a_file_that_is_not_there_is_refused(reader, tmp_path):
    cls, error, words, _ = reader
    with pytest.raises(error, match=f"^{words}.*No such file"):
        cls.load(tmp_path / "missing.npz")


def test_a_file_that_is_cut_off_anywhere_is_refused(reader, whole):
    cls, error, words, _ = reader
    for size in range(0, len(whole), 97):
        with pytest.raises(error, match=f"^{words}"):
            cls.load(whole[:size])


def test_a_changed_byte_gives_a_file_or_a_refusal(reader, whole):
    cls, error, _, _ = reader
    refused = 0
    for place in range(0, len(whole), 7):
        try:
            cls.load(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        except error:
            refused += 1
    assert refused > len(whole) / 7 / 2


class Pickled:
    """An object whose unpickling makes a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("name", ["header", "another"])
def test_a_file_runs_nothing_when_it_is_read(reader, whole, tmp_path, name):
    cls, error, words, _ = reader
    with np.load(io.BytesIO(whole)) as file:
        arrays = dict(file)
    damaged = saved(**arrays | {name: np.array([Pickled(tmp_path / "made")], dtype=object)})
    with pytest.raises(error, match=f"^{words}"):
        cls.load(damaged)
    assert not (tmp_path / "made").exists()


def test_a_file_that_unpacks_to_more_than_the_limit_is_refused(reader, whole, monkeypatch):
    cls, error, _, module = reader
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    monkeypatch.setattr(module, "MAX_FILE_BYTES", unpacked)
    assert cls.load(whole).problem
    monkeypatch.setattr(module, "MAX_FILE_BYTES", unpacked - 1)
    with pytest.raises(error, match=r"it unpacks to 0\.\d MB; at most 0\.\d MB are read"):
        cls.load(whole)


def test_lanes_of_another_version_are_named(monkeypatch):
    monkeypatch.setattr(lanes, "FORMAT_VERSION", 7)
    newer = made_lanes().to_bytes()
    monkeypatch.undo()
    for read in (Lanes.load, Lanes.subject_of):
        with pytest.raises(InvalidLanes, match=r"^this is flash-attention-lanes version 7; expected"):
            read(newer)


def test_the_subject_of_lanes_is_read_without_their_arrays(tmp_path):
    with np.load(io.BytesIO(made_lanes().to_bytes())) as file:
        header = file["header"]
    (tmp_path / "lanes.npz").write_bytes(saved(header=header, event_lane=np.array([{}], dtype=object)))
    assert Lanes.subject_of(tmp_path / "lanes.npz") == (made_lanes().problem, made_lanes().kernel)
    with pytest.raises(InvalidLanes):
        Lanes.load(tmp_path / "lanes.npz")
