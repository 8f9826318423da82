"""Both readers: what NumPy and safetensors write is read; no file makes them fail or take much memory."""

import pickle
import struct
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.check.files import uploads
from kernels.check.files.uploads import InvalidUpload, read_upload
from tests.kernels.check.files.made import (
    SHAPE,
    arrays,
    entry,
    npy_header,
    npz,
    packed,
    read_or_refused,
    safetensors_file,
    zip_of,
)

OURS = {"q": "query", "k": "key", "v": "value"}
NPZ, SAFE = npz(**arrays()), packed(arrays())


@pytest.mark.parametrize(
    "write", [npz, lambda **named: npz(True, **named), lambda **named: safetensors.numpy.save(named)]
)
def test_a_file_is_read_as_it_is(write):
    named = arrays()
    upload = read_upload(write(**named))
    assert upload.facts.dtype == "float16"
    for name, ours in OURS.items():
        np.testing.assert_array_equal(upload.tensors[ours].array, named[name], strict=True)


def test_every_layout_of_an_array_is_understood():
    named = arrays("float32")
    named |= {"k": np.asfortranarray(named["k"]), "v": named["v"].astype(">f4")}
    upload = read_upload(npz(**named))
    for name, ours in OURS.items():
        array = upload.tensors[ours].array
        assert np.array_equal(array, named[name])
        assert array.flags.c_contiguous
        assert array.dtype.isnative


def test_bfloat16_is_read_as_bits():
    named = {name: torch.from_numpy(array).bfloat16() for name, array in arrays("float32").items()}
    upload = read_upload(safetensors.torch.save(named))
    assert upload.facts.dtype == "bfloat16"
    assert np.array_equal(upload.tensors["key"].array, named["k"].view(torch.uint16).numpy())


def test_tensors_of_unknown_names_may_have_any_type():
    header = {name: entry(SHAPE, [512 * i, 512 * (i + 1)]) for i, name in enumerate("qkv")}
    header["step"] = entry([1], [1536, 1544], "I64")
    assert read_upload(safetensors_file(header, bytes(1544))).facts.ignored == ("step",)
    assert read_upload(npz(**arrays(), note=np.array([{}], dtype=object))).facts.ignored == ("note",)


HALF = entry([2], [0, 4])
BAD = {
    "objects": npz(**arrays(names="kv"), q=np.array([{"a": 1}], dtype=object)),
    "cut off": NPZ[: len(NPZ) // 2],
    "damaged": NPZ.replace(b"NUMPY", b"NUMPX"),
    "flipped bytes": NPZ[:300] + bytes([NPZ[300] ^ 255]) + NPZ[301:],
    "empty archive": npz(),
    "integers": npz(**arrays("int32")),
    "long double": npz(**arrays("longdouble")),
    "huge shape": zip_of(q=npy_header((1 << 20, 1 << 20))),
    "huge shape of no elements": zip_of(q=npy_header((0, 1 << 70))),
    "shape beyond the bytes": zip_of(q=npy_header((1 << 20,)) + b"1234"),
    "negative shape": zip_of(q=npy_header((1234, 1)).replace(b"1234", b"  -4")),
    "70 arrays": npz(**arrays(), **{f"array{i}": np.zeros(1) for i in range(70)}),
    "deep json": safetensors_file(b'{"q":' + b"[" * 100_000),
    "header of 2^64 - 1 bytes": safetensors_file({"q": 1}, length=(1 << 64) - 1),
    "header too long": safetensors_file(b"{" + b" " * (1 << 20) + b"}"),
    "offsets beyond the end": safetensors_file({"q": entry([4], [0, 8])}),
    "offsets that overlap": safetensors_file({"q": HALF, "k": HALF}, b"1234"),
    "shape that overflows": safetensors_file({"q": entry([1 << 40, 1 << 40], [0, 4])}, b"1234"),
    "no elements": safetensors_file({"q": entry([0, (1 << 64) - 1], [0, 0])}),
    "unknown dtype": safetensors_file({"q": entry([2], [0, 4], "X9")}, b"1234"),
    "integer dtype": safetensors_file({"q": entry([1], [0, 8], "I64")}, b"12345678"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_accepted_is_refused(name):
    with pytest.raises(InvalidUpload):
        read_upload(BAD[name])


def peak_bytes(data):
    """Most memory that refusing the file took."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidUpload):
            read_upload(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_file_takes_much_memory(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_UNPACKED_BYTES", 16 << 20)
    bomb = zip_of(q=npy_header((1 << 23,)) + bytes(1 << 25))
    assert len(bomb) < 1 << 20
    assert peak_bytes(bomb) < 1 << 20
    content = npy_header((1 << 18,)) + bytes(1 << 20)
    lies = zip_of(q=content).replace(struct.pack("<I", len(content)), struct.pack("<I", 4096))
    assert peak_bytes(lies) < 2 << 20
    many = zip_of(**{f"array{i}": b"" for i in range(3000)})
    assert peak_bytes(many) < 1 << 20
    huge = {name: entry([1 << 20, 1 << 20], [0, 1 << 41]) for name in "qkv"}
    assert peak_bytes(safetensors_file(huge)) < 1 << 20
    assert peak_bytes(safetensors_file({f"t{i}": entry([0], [0, 0]) for i in range(40_000)})) < 1 << 20


def test_no_pickle_is_ever_loaded(monkeypatch):
    loaded = []
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, lambda *args, **kwargs: loaded.append(args))
    evil = np.array([print], dtype=object)
    for data in (npz(q=evil), pickle.dumps(print), npz(**arrays(), extra=evil)):
        read_or_refused(data)
    assert loaded == []


@pytest.mark.parametrize("good", [NPZ, SAFE], ids=["npz", "safetensors"])
def test_a_damaged_file_and_any_bytes_are_read_or_refused(good):
    assert read_or_refused(good)

    @settings(max_examples=80, deadline=None, derandomize=True)
    @given(st.data(), st.binary(max_size=300))
    def damages(data, other):
        damaged = bytearray(good)
        end = data.draw(st.sampled_from([8, 200, len(good)]))  # most damage to lengths and headers
        for _ in range(data.draw(st.integers(1, 4))):
            damaged[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
        read_or_refused(bytes(damaged))
        read_or_refused(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
        for begin in (b"", b"PK\x03\x04", (100).to_bytes(8, "little") + b"{"):
            read_or_refused(begin + other + good[-200:])

    damages()
