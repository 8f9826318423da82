"""The .npz reader: every layout that NumPy writes; no archive makes it allocate or work beyond its size."""

import io
import struct
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.check.file_rules import InvalidUpload
from kernels.check.npz import read_npz
from kernels.check.uploads import read_upload
from tests.kernels.check.files import arrays, npy_header, npz, patched, peak_bytes, read_or_refused, zip_of

GOOD = npz(**arrays())


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_an_archive_is_read_as_it_is(dtype, compressed):
    named = arrays(dtype)
    upload = read_upload(npz(compressed, **named))
    assert np.array_equal(upload.tensors["query"].array, named["q"])
    assert upload.facts.dtype == dtype


def test_every_layout_is_understood():
    named = arrays("float32")
    named |= {"k": np.asfortranarray(named["k"]), "v": named["v"].astype(">f4")}
    upload = read_upload(npz(**named))
    for ours, name in (("query", "q"), ("key", "k"), ("value", "v")):
        array = upload.tensors[ours].array
        assert np.array_equal(array, named[name])
        assert array.flags.c_contiguous
        assert array.dtype.isnative


def archive_with_a_name_twice():
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("q.npy", npy_header((1,)) + b"1234")
    return buffer.getvalue()


BAD = {
    "objects": (
        npz(**arrays(names="kv"), q=np.array([{"a": 1}], dtype=object)),
        "holds Python objects, which only a pickle",
    ),
    "cut off": (GOOD[: len(GOOD) // 2], "cut off: it has no directory"),
    "damaged": (patched(GOOD, b"NUMPY", b"NUMPX"), "damaged or not an .npz"),
    "flipped bytes": (GOOD[:300] + bytes([GOOD[300] ^ 255]) + GOOD[301:], "damaged or not an .npz"),
    "empty archive": (npz(), "There is no query in the file, which holds nothing"),
    "a name twice": (archive_with_a_name_twice(), "holds a name twice"),
    "integers": (npz(**arrays("int32")), "'q.npy' has dtype 'int32'; expected float16"),
    "complex": (npz(**arrays("complex64")), "dtype 'complex64'"),
    "long double": (npz(**arrays("longdouble")), "dtype 'float128'|dtype 'longdouble'"),
    "records": (npz(q=np.zeros(3, [("a", "f4")])), "for bfloat16 use|For bfloat16 use"),
    "huge shape": (zip_of(q=npy_header((1 << 20, 1 << 20))), r"has shape '\(1048576, 1048576\)'"),
    "huge shape of no elements": (zip_of(q=npy_header((0, 1 << 70))), "has shape .* at most"),
    "shape beyond the bytes": (zip_of(q=npy_header((1 << 20,)) + b"1234"), "too few bytes"),
    "negative shape": (
        zip_of(q=patched(npy_header((1234, 1)), b"1234", b"  -4")),
        "expected lengths from 0|damaged",
    ),
    "nine dimensions": (zip_of(q=npy_header((1,) * 9) + b"1234"), "has 9 dimensions; expected 4"),
    "bytes after the array": (zip_of(q=npy_header((1,)) + b"12345678"), "has bytes after its array"),
    "header of a list": (zip_of(q=b"\x93NUMPY\x01\x00\x03\x00[1]"), "damaged or not"),
    "header that ends early": (zip_of(q=b"\x93NUMPY\x01\x00\x06\x00{'a':("), "damaged or not"),
    "header with mixed keys": (zip_of(q=b"\x93NUMPY\x01\x00\x0c\x00{1: 2,'a':3}"), "damaged or not"),
    "version 9": (zip_of(q=b"\x93NUMPY\x09\x00\x03\x00[1]"), r"version \(9, 0\)|damaged or not"),
    "lzma": (zip_of(zipfile.ZIP_LZMA, q=npy_header((1,)) + b"1234"), "packed by an unusual method"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_accepted_is_refused_in_words(name):
    data, words = BAD[name]
    with pytest.raises(InvalidUpload, match=words):
        read_upload(data)


def test_a_zip_bomb_is_refused_unread():
    bomb = zip_of(q=npy_header((75_000_000,)) + bytes(300_000_000))
    assert len(bomb) < 2 << 20
    peak, words = peak_bytes(bomb)
    assert peak < 4 << 20
    assert "unpacks to 300 MB; at most 268 MB are read" in words


def test_a_bomb_that_lies_about_its_size_is_not_unpacked():
    content = npy_header((1 << 24,)) + bytes(1 << 26)
    bomb = zip_of(q=content)
    lied = patched(bomb, struct.pack("<I", len(content)), struct.pack("<I", 4096))
    peak, words = peak_bytes(lied)
    assert peak < 1 << 20
    assert "damaged" in words or "too few bytes" in words


def test_a_directory_of_many_entries_is_refused_unread():
    peak, words = peak_bytes(zip_of(**{f"array{i}": b"" for i in range(3000)}))
    assert peak < 1 << 20
    assert "directory is larger than" in words
    with pytest.raises(InvalidUpload, match="holds 70 tensors; at most 64"):
        read_upload(zip_of(**{f"array{i}": b"" for i in range(70)}))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_a_damaged_archive_gives_what_numpy_reads_or_a_refusal(data):
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    read_or_refused(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    upload = read_or_refused(bytes(damaged))
    if upload:
        with np.load(io.BytesIO(damaged), allow_pickle=False) as file:
            for array in read_npz(bytes(damaged)).values():
                assert any(np.array_equal(array.array, file[name], equal_nan=True) for name in file.files)


HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "descr": st.sampled_from(["<f4", ">f2", "|O", "<f99", "", 3, None]),
        "fortran_order": st.booleans() | st.none() | st.integers(),
        "shape": st.lists(st.integers(-5, 1 << 70), max_size=12).map(tuple) | st.none() | st.integers(),
    },
).map(repr) | st.text(max_size=40)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(HEADERS)
def test_any_array_header_is_read_or_refused(header):
    text = header.encode("latin-1", "replace")
    read_or_refused(zip_of(q=b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"1234"))
