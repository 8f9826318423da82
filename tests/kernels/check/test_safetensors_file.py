"""The .safetensors reader: bfloat16 as bits; no header makes it fail, or allocate beyond the file's size."""

import json
import re
import struct

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.check.file_rules import InvalidUpload
from kernels.check.uploads import read_upload
from tests.kernels.check.files import (
    SHAPE,
    arrays,
    entry,
    packed,
    peak_bytes,
    read_or_refused,
    safetensors_file,
)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_file_of_numpy_is_read_as_it_is(dtype):
    named = arrays(dtype)
    upload = read_upload(safetensors.numpy.save(named))
    assert upload.facts.dtype == dtype
    for ours, name in (("query", "q"), ("key", "k"), ("value", "v")):
        assert np.array_equal(upload.tensors[ours].array, named[name])
        assert upload.tensors[ours].array.dtype == dtype


def test_a_file_of_torch_in_bfloat16_is_read_as_bits():
    named = {name: torch.from_numpy(array).bfloat16() for name, array in arrays("float32").items()}
    upload = read_upload(safetensors.torch.save(named))
    assert upload.facts.dtype == "bfloat16"
    assert np.array_equal(upload.tensors["key"].array, named["k"].view(torch.uint16).numpy())


def test_tensors_keep_the_order_of_the_file():
    upload = read_upload(packed(arrays(names="cvbqak")))
    assert upload.facts.names == ("value", "query", "key")
    assert upload.ignored == ("c", "b", "a")


def test_tensors_of_unknown_names_may_have_any_type():
    header = {name: entry(SHAPE, [512 * i, 512 * (i + 1)]) for i, name in enumerate("qkv")}
    header["step"] = entry([1], [1536, 1544], "I64")
    assert read_upload(safetensors_file(header, bytes(1544))).facts.ignored == ("step",)


BAD = {
    "no braces": (safetensors_file(b"[1, 2, 3, 4]"), "neither an .npz nor"),
    "no json": (safetensors_file(b"{not json at all}"), "not valid JSON"),
    "not utf-8": (safetensors_file(b'{"\xff": 1}'), "not valid JSON"),
    "deep json": (safetensors_file(b'{"q":' + b"[" * 100_000), "not valid JSON|damaged"),
    "long number": (safetensors_file(b'{"q": ' + b"9" * 9000 + b"}"), "not valid JSON"),
    "name twice": (safetensors_file(b'{"q": 1, "q": 2}'), "a name appears twice"),
    "header longer than the file": (
        safetensors_file({"q": 1}, length=1 << 40),
        "1,099,511,627,776 bytes, but only 8 follow",
    ),
    "header of 2^64 - 1 bytes": (safetensors_file({"q": 1}, length=(1 << 64) - 1), "the file is cut off"),
    "header too long": (safetensors_file(b"{" + b" " * (1 << 20) + b"}"), "at most 1,048,576 are read"),
    "70 tensors": (safetensors_file({f"t{i}": entry([0], [0, 0]) for i in range(70)}), "holds 70 tensors"),
    "no entry": (safetensors_file({"q": 7}), "is damaged: .*expected struct TensorInfo"),
    "offsets beyond the end": (safetensors_file({"q": entry([4], [0, 8])}), "is damaged"),
    "offsets reversed": (safetensors_file({"q": entry([0], [4, 0])}, b"1234"), "invalid offset"),
    "offsets negative": (safetensors_file({"q": entry([2], [-4, 0])}, b"1234"), "integer `-4`"),
    "offsets that overlap": (
        safetensors_file({"q": entry([2], [0, 4]), "k": entry([2], [0, 4])}, b"1234"),
        "invalid offset for tensor",
    ),
    "bytes that belong to no tensor": (
        safetensors_file({"q": entry([2], [0, 4])}, b"12345678"),
        "not fully covered",
    ),
    "shape beyond the bytes": (safetensors_file({"q": entry([3], [0, 4])}, b"1234"), "is damaged"),
    "shape that overflows": (safetensors_file({"q": entry([1 << 40, 1 << 40], [0, 4])}, b"1234"), "overflow"),
    "shape of 2^70": (safetensors_file({"q": entry([1 << 70], [0, 4])}, b"1234"), "is damaged"),
    "huge shape of no elements": (
        safetensors_file({"q": entry([0, (1 << 64) - 1], [0, 0])}),
        "has shape .* expected lengths from 0",
    ),
    "shape of booleans": (safetensors_file({"q": entry([True, 2], [0, 4])}, b"1234"), "boolean `true`"),
    "shape of fractions": (safetensors_file({"q": entry([2.0], [0, 4])}, b"1234"), "floating point `2.0`"),
    "list as dtype": (safetensors_file({"q": entry([2], [0, 4], ["F16"])}, b"1234"), "is damaged"),
    "unknown dtype": (safetensors_file({"q": entry([2], [0, 4], "X9")}, b"1234"), "unknown variant `X9`"),
    "integer dtype": (
        safetensors_file({"q": entry([1], [0, 8], "I64")}, b"12345678"),
        "'q' has dtype I64; expected F16, BF16, F32, F64. Convert",
    ),
    "half a byte": (safetensors_file({"q": entry([3], [0, 1], "F4")}, b"1"), "is damaged"),
    "100 axes": (safetensors_file({"q": entry([1] * 100, [0, 2])}, b"12"), "100 dimensions; expected 4"),
    "metadata of numbers": (safetensors_file({"__metadata__": {"a": 1}}), "is damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_accepted_is_refused_in_words(name):
    data, words = BAD[name]
    with pytest.raises(InvalidUpload, match=words) as caught:
        read_upload(data)
    assert re.search("sav|convert", str(caught.value), re.IGNORECASE)  # what to do


@pytest.mark.parametrize("length", range(0, 200, 7))
def test_a_file_that_is_cut_off_is_refused(length):
    with pytest.raises(InvalidUpload):
        read_upload(SAFE[:length])
    with pytest.raises(InvalidUpload):
        read_upload(SAFE[: len(SAFE) - 1 - length])


def test_a_header_that_promises_much_takes_little_memory():
    huge = {name: entry([1 << 20, 1 << 20], [0, 1 << 41]) for name in "qkv"}
    peak, _ = peak_bytes(safetensors_file(huge))
    assert peak < 1 << 20
    many = {f"t{i}": entry([0], [0, 0]) for i in range(15_000)}
    peak, words = peak_bytes(safetensors_file(many))
    assert peak < 64 << 20
    assert "holds 15000 tensors" in words


SAFE = packed(arrays())


def expected_arrays(data):
    """What a file that was read holds, from its header and bytes."""
    (length,) = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    for name, found in header.items():
        if name.lower() in ("q", "k", "v"):
            first, end = found["data_offsets"]
            dtype = {"F16": "<f2", "BF16": "<u2", "F32": "<f4"}[found["dtype"]]
            yield name.lower(), np.frombuffer(body[first:end], dtype).reshape(found["shape"])


def assert_right_or_refused(data):
    upload = read_or_refused(data)
    if upload is None:
        return False
    for name, array in expected_arrays(data):
        ours = {"q": "query", "k": "key", "v": "value"}[name]
        assert np.array_equal(upload.tensors[ours].array, array, equal_nan=True)
    return True


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_a_damaged_file_gives_the_right_arrays_or_a_refusal(data):
    damaged = bytearray(SAFE)
    (length,) = struct.unpack_from("<Q", SAFE)
    end = data.draw(st.sampled_from([8, 8 + length, len(SAFE)]))  # most damage to the length and the header
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    assert_right_or_refused(bytes(damaged))
    assert_right_or_refused(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))


def test_damage_to_the_values_alone_is_read():
    damaged = bytearray(SAFE)
    damaged[-1] ^= 1
    assert assert_right_or_refused(bytes(damaged))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F16", "BF16", "F32", "I8"]) | JSON,
        "shape": JSON | st.lists(st.integers(0, 1 << 65), max_size=10),
        "data_offsets": JSON,
    },
)
HEADER = st.dictionaries(
    st.sampled_from(["q", "k", "v", "o", "dq", "__metadata__", "x"]), ENTRY | JSON, max_size=5
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(HEADER, st.binary(max_size=64))
def test_any_header_is_read_or_refused(header, body):
    assert_right_or_refused(safetensors_file(header, body))


SHAPES = st.lists(st.integers(0, 1 << 64), max_size=10).map(lambda shape: [0, *shape])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SHAPES)
def test_shapes_of_no_elements_are_read_or_refused(shape):
    assert_right_or_refused(safetensors_file({name: entry(shape, [0, 0]) for name in "qkv"}))
