"""Files as a user, or somebody hostile, might upload them: read as they are, or refused in words."""

import io
import json
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from kernels.check.files import uploads
from kernels.check.files.uploads import InvalidUpload, read_upload
from kernels.problem import AttentionProblem, InvalidProblem

SHAPE = (1, 2, 8, 16)


def arrays(dtype="float16", shape=SHAPE, names="qkv"):
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(dtype) for name in names}


def npz(compressed=False, **named):
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **named)
    return buffer.getvalue()


def zip_of(method=zipfile.ZIP_DEFLATED, **contents):
    """An .npz file whose entries hold these bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in contents.items():
            archive.writestr(name + ".npy", content)
    return buffer.getvalue()


def npy_header(shape, descr="<f4"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def safetensors_file(header, body=b"", length=None):
    """A .safetensors file with this header, right or wrong; `length` is the header length that it claims."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def entry(shape, data_offsets, dtype="F16"):
    return {"dtype": dtype, "shape": shape, "data_offsets": data_offsets}


def packed(named, dtype="F16"):
    """A valid .safetensors file of arrays; their bytes are taken as they are."""
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, array in named.items():
        header[name] = entry(list(array.shape), [len(body), len(body) + array.nbytes], dtype)
        body += array.tobytes()
    return safetensors_file(header, body)


def read_or_refused(data):
    """The upload, or None after checking that the refusal is one sentence or two."""
    try:
        return read_upload(data)
    except (InvalidUpload, InvalidProblem) as error:
        words = str(error)
    assert 20 < len(words) < 1000
    return None


OURS = {"q": "query", "k": "key", "v": "value"}
NPZ = npz(**arrays())


@pytest.mark.parametrize(
    "write", [npz, lambda **named: npz(True, **named), lambda **named: safetensors.numpy.save(named)]
)
def test_a_file_is_read_as_it_is(write):
    named = arrays()
    upload = read_upload(write(**named))
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
    named = {name: torch.from_numpy(array).bfloat16() for name, array in arrays("float32").items()}
    upload = read_upload(safetensors.torch.save(named))
    assert upload.tensors["key"].dtype == "bfloat16"
    assert np.array_equal(upload.tensors["key"].array, named["k"].view(torch.uint16).numpy())


def test_tensors_of_unknown_names_may_have_any_type():
    with_step = safetensors.numpy.save(arrays() | {"step": np.zeros(1, np.int64)})
    with_note = npz(**arrays(), note=np.array([{}], dtype=object))
    assert all(len(read_upload(data).tensors) == 3 for data in (with_step, with_note))


def test_the_shape_and_dtype_of_a_file_become_the_problem():
    upload = read_upload(packed(arrays()))
    found = upload.problem(AttentionProblem(mask="causal", dtype="float32"))
    assert found == AttentionProblem(1, 2, 2, 8, 8, 16, "float16", "causal")
    assert "2 heads of length 8" in upload.words


def test_names_may_be_written_in_many_ways_and_others_are_left_alone():
    names = ("Query", "KEY", "v", "softmax_lse", "Out")
    named = dict(zip(names, arrays(names="abcde").values(), strict=True))
    named |= {"softmax_lse": named["softmax_lse"][..., 0], "note": np.array(["text is not even read"])}
    assert {*read_upload(npz(**named)).tensors} == {"query", "key", "value", "lse", "output"}


HALF = entry([2], [0, 4])
HOSTILE = {
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
    "deep json": safetensors_file(b'{"q":' + b"[" * 100_000),
    "header of 2^64 - 1 bytes": safetensors_file({"q": 1}, length=(1 << 64) - 1),
    "offsets beyond the end": safetensors_file({"q": entry([4], [0, 8])}),
    "offsets that overlap": safetensors_file({"q": HALF, "k": HALF}, b"1234"),
    "shape that overflows": safetensors_file({"q": entry([1 << 40, 1 << 40], [0, 4])}, b"1234"),
    "no elements": safetensors_file({"q": entry([0, (1 << 64) - 1], [0, 0])}),
    "unknown dtype": safetensors_file({"q": entry([2], [0, 4], "X9")}, b"1234"),
    "integer dtype": safetensors_file({"q": entry([1], [0, 8], "I64")}, b"12345678"),
}
LSE = np.zeros((1, 2, 8), np.float32)
GRADIENTS = dict.fromkeys(["do", "dq", "dk", "dv"], arrays()["q"])
BAD = {
    "empty": (b"", "not accepted"),
    "text": (b"query,key,value\n1,2,3\n", "not accepted"),
    "single array": (npy_header((2,)) + b"12345678", "not accepted"),
    "no query": (npz(**arrays(names="kv")), "query"),
    "two queries": (npz(**arrays(), query=arrays()["q"]), "second query"),
    "rank 3": (npz(**{name: array[0] for name, array in arrays().items()}), r"\(2, 8, 16\)"),
    "scalar": (npz(**arrays(names="kv"), q=np.float16(1)), r"shape \(\)"),
    "float64": (npz(**arrays("float64")), "float64"),
    "two dtypes": (npz(**arrays(names="qk"), v=arrays("float32")["v"]), "value has dtype"),
    "head_dim differs": (npz(**arrays(names="q"), **arrays(shape=(1, 2, 8, 32), names="kv")), "head_dim"),
    "lengths differ": (npz(**arrays(names="qk"), **arrays(shape=(1, 2, 9, 16), names="v")), "value has"),
    "lse of another length": (npz(**arrays(names="qkvo"), lse=LSE[..., 1:]), "lse has"),
    "lse without o": (npz(**arrays(), lse=LSE), "no output"),
    "one gradient": (npz(**arrays(), o=arrays()["q"], dq=arrays()["q"]), "all four"),
    "gradients without o": (npz(**arrays(), **GRADIENTS), "no output"),
    "no length": (npz(**arrays(shape=(1, 1, 0, 16))), "q_len=0"),
    "head_dim 7": (npz(**arrays(shape=(1, 1, 8, 7))), "head_dim=7"),
    "no batch": (npz(**arrays(shape=(0, 1, 8, 16))), "batch=0"),
}


@pytest.mark.parametrize("name", BAD | HOSTILE)
def test_what_is_not_accepted_is_refused_in_words(name):
    data, words = BAD[name] if name in BAD else (HOSTILE[name], "")
    with pytest.raises((InvalidUpload, InvalidProblem), match=words):
        read_upload(data)


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
    huge = {name: entry([1 << 20, 1 << 20], [0, 1 << 41]) for name in "qkv"}
    assert peak_bytes(safetensors_file(huge)) < 1 << 20


def test_no_pickle_is_ever_loaded(monkeypatch):
    loaded = []
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, lambda *args, **kwargs: loaded.append(args))
    evil = np.array([print], dtype=object)
    for data in (npz(q=evil), pickle.dumps(print), npz(**arrays(), extra=evil)):
        read_or_refused(data)
    assert loaded == []


def test_a_file_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_FILE_BYTES", 1000)
    with pytest.raises(InvalidUpload, match="MB"):
        read_upload(npz(**arrays()))
