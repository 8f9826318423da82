"""Files from anywhere: what is right is read as it is, everything else is refused in words; nothing is run, nothing huge is made."""

import contextlib
import io
import json
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.check import uploads
from kernels.check.uploads import InvalidUpload, read_upload
from kernels.problem import AttentionProblem, InvalidProblem

SHAPE = (1, 2, 8, 16)


def arrays(dtype="float16", shape=SHAPE, names="qkv"):
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(dtype) for name in names}


def npz(compressed=False, **named):
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **named)
    return buffer.getvalue()


def safetensors(header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def packed(named, dtype="F16"):
    """A valid .safetensors file of arrays; their bytes are taken as they are."""
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, array in named.items():
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + array.nbytes],
        }
        body += array.tobytes()
    return safetensors(header, body)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_npz_is_read_as_it_is(dtype, compressed):
    named = arrays(dtype)
    upload = read_upload(npz(compressed, **named))
    assert np.array_equal(upload.tensors["query"].array, named["q"])
    assert upload.facts.problem(AttentionProblem(mask="causal")) == AttentionProblem(
        q_heads=2, kv_heads=2, q_len=8, kv_len=8, head_dim=16, dtype=dtype, mask="causal"
    )


def test_layouts_of_npz_are_understood():
    named = arrays("float32") | {
        "k": np.asfortranarray(arrays("float32")["k"]),
        "v": arrays("float32")["v"].astype(">f4"),
    }
    upload = read_upload(npz(**named))
    for ours, name in (("query", "q"), ("key", "k"), ("value", "v")):
        assert np.array_equal(upload.tensors[ours].array, named[name])
        assert upload.tensors[ours].array.flags.c_contiguous
        assert upload.tensors[ours].array.dtype.isnative


def test_safetensors_with_bfloat16_are_read_as_bits():
    bits = {name: np.arange(256, dtype=np.uint16).reshape(SHAPE) for name in "qkv"}
    upload = read_upload(packed(bits, "BF16"))
    assert upload.facts.dtype == "bfloat16"
    assert np.array_equal(upload.tensors["key"].array, bits["k"])


def test_safetensors_written_by_the_format_s_own_rules_with_spaces_in_the_header():
    named = arrays("float32")
    header, body = {}, b""
    for name, array in named.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + array.nbytes],
        }
        body += array.tobytes()
    text = json.dumps(header).encode()
    upload = read_upload(safetensors(text + b" " * (-len(text) % 8), body))
    assert np.array_equal(upload.tensors["value"].array, named["v"])


def test_names_may_be_written_in_many_ways_and_others_are_left_alone():
    named = dict(
        zip(("Query", "KEY", "v", "softmax_lse", "Out", "note"), arrays(names="abcdef").values(), strict=True)
    )
    named |= {"softmax_lse": named["softmax_lse"][..., 0], "note": np.array(["text is not even read"])}
    facts = read_upload(npz(**named)).facts
    assert set(facts.names) == {"query", "key", "value", "lse", "output"}
    assert facts.ignored == ("note",)
    assert facts.has_output
    assert not facts.has_gradients


def test_values_that_are_not_finite_are_taken():
    named = arrays("float32")
    named["q"][:] = np.nan
    named["k"][0, 0, 0] = np.inf
    assert np.isnan(read_upload(npz(**named)).tensors["query"].array).all()


def zip_of(**contents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name + ".npy", content)
    return buffer.getvalue()


def npy_header(shape, descr="<f4"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def patched(data, old, new):
    assert data.count(old) >= 1
    return data.replace(old, new)


GOOD = npz(**arrays())
BAD = {
    "empty": (b"", "The file is empty"),
    "text": (b"query,key,value\n1,2,3\n", "neither an .npz nor a .safetensors"),
    "pickle": (pickle.dumps({"q": 1}), "neither an .npz nor a .safetensors"),
    "npy": (arrays()["q"].dumps(), "neither an .npz nor a .safetensors"),
    "single array": (npy_header((2,)) + b"12345678", "a single .npy array"),
    "pickled array": (
        npz(**arrays(names="kv"), q=np.array([{"a": 1}], dtype=object)),
        "holds Python objects, which only a pickle",
    ),
    "cut off": (GOOD[: len(GOOD) // 2], "cut off: it has no directory"),
    "damaged": (patched(GOOD, b"NUMPY", b"NUMPX"), "damaged or no .npz"),
    "flipped bytes": (GOOD[:300] + bytes([GOOD[300] ^ 255]) + GOOD[301:], "damaged or no .npz"),
    "no query": (npz(**arrays(names="kv")), "There is no query in the file, which holds 'k', 'v'"),
    "two queries": (npz(**arrays(), query=arrays()["q"]), "'query' is a second query"),
    "empty archive": (npz(), "There is no query in the file, which holds nothing"),
    "rank 3": (
        npz(**{name: array[0] for name, array in arrays().items()}),
        r"query has shape \(2, 8, 16\); expected \(batch, heads, length, head_dim\)",
    ),
    "scalar": (npz(**arrays(names="kv"), q=np.float16(1)), r"query has shape \(\)"),
    "integers": (npz(**arrays("int32")), "'q.npy' has dtype 'int32'; expected float16"),
    "complex": (npz(**arrays("complex64")), "dtype 'complex64'"),
    "records": (npz(q=np.zeros(3, [("a", "f4")])), "dtype"),
    "float64": (
        npz(**arrays("float64")),
        "query has dtype float64; expected float16, bfloat16, float32, the same for query, key, value and dO",
    ),
    "two dtypes": (npz(**arrays(names="qk"), v=arrays("float32")["v"]), "value has dtype float32"),
    "head_dim differs": (
        npz(**arrays(names="q"), **arrays(shape=(1, 2, 8, 32), names="kv")),
        "batch and head_dim must be the same",
    ),
    "lengths differ": (
        npz(**arrays(names="qk"), **arrays(shape=(1, 2, 9, 16), names="v")),
        r"value has shape \(1, 2, 9, 16\); expected \(1, 2, 8, 16\)",
    ),
    "lse without o": (npz(**arrays(), lse=np.zeros((1, 2, 8), np.float32)), "The file has lse but no output"),
    "one gradient": (
        npz(**arrays(), o=arrays()["q"], dq=arrays()["q"]),
        "gradients are checked together: dO, dQ, dK and dV",
    ),
    "huge shape": (
        zip_of(q=npy_header((1 << 20, 1 << 20)), k=b"", v=b""),
        "says it has shape .* too few bytes",
    ),
    "negative shape": (
        zip_of(q=patched(npy_header((1234, 1)), b"1234", b"  -4"), k=b"", v=b""),
        "shape|damaged",
    ),
    "trailing bytes": (zip_of(q=npy_header((1,)) + b"12345678"), "has bytes after its array"),
    "lzma": (None, "packed by an unusual method"),
    "no braces": (safetensors(b"[1, 2, 3, 4]"), "neither an .npz nor"),
    "no json": (safetensors(b"{not json at all}"), "no valid JSON"),
    "deep json": (safetensors(b'{"q":' + b"[" * 100_000), "no valid JSON"),
    "long number": (safetensors(b'{"q": ' + b"9" * 9000 + b"}"), "no valid JSON"),
    "name twice": (safetensors(b'{"q": 1, "q": 2}'), "a name appears twice"),
    "header longer than the file": (
        safetensors({"q": 1}, length=1 << 40),
        "1,099,511,627,776 bytes; the file is cut off",
    ),
    "no entry": (safetensors({"q": 7}), "'q' has no dtype, shape and data_offsets"),
    "offsets beyond the end": (
        safetensors({"q": {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]}}),
        "which its bytes in the file do not fit",
    ),
    "offsets reversed": (
        safetensors({"q": {"dtype": "F16", "shape": [0], "data_offsets": [4, 0]}}, b"1234"),
        "do not fit",
    ),
    "offsets negative": (
        safetensors({"q": {"dtype": "F16", "shape": [2], "data_offsets": [-4, 0]}}, b"1234"),
        "no whole number from 0",
    ),
    "shape of booleans": (
        safetensors({"q": {"dtype": "F16", "shape": [True, 2], "data_offsets": [0, 4]}}, b"1234"),
        "no whole number from 0",
    ),
    "odd dtype": (
        safetensors({"q": {"dtype": ["F16"], "shape": [2], "data_offsets": [0, 4]}}, b"1234"),
        "has dtype",
    ),
    "integer dtype": (
        safetensors({"q": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}, b"12345678"),
        "has dtype 'I64'; expected F16, BF16",
    ),
    "100 axes": (
        safetensors({"q": {"dtype": "F16", "shape": [1] * 100, "data_offsets": [0, 2]}}, b"12"),
        "100 dimensions",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_taken_is_refused_in_words(name):
    data, words = BAD[name]
    if name == "lzma":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("q.npy", npy_header((1,)) + b"1234")
        data = buffer.getvalue()
    with pytest.raises(InvalidUpload, match=words):
        read_upload(data)


def test_no_pickle_is_ever_loaded(monkeypatch):
    loaded = []
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, lambda *args, **kwargs: loaded.append(args))

    class Evil:
        def __reduce__(self):
            return print, ("run",)

    for data in (
        npz(q=np.array([Evil()], dtype=object)),
        pickle.dumps(Evil()),
        npz(**arrays(), extra=np.array([Evil()], dtype=object)),
    ):
        with contextlib.suppress(InvalidUpload):
            read_upload(data)
    assert loaded == []


@pytest.mark.parametrize("shape", [(1, 1, 0, 16), (1, 1, 8, 7), (1, 1, 8, 512), (0, 1, 8, 16)])
def test_a_shape_that_no_kernel_takes_is_refused_by_the_problem(shape):
    with pytest.raises(InvalidProblem, match="is not accepted: expected"):
        read_upload(npz(**arrays(shape=shape)))


def peak_bytes(data):
    tracemalloc.start()
    try:
        with pytest.raises(InvalidUpload) as caught:
            read_upload(data)
        return tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


def test_a_zip_bomb_is_refused_unread():
    bomb = zip_of(q=npy_header((75_000_000,)) + bytes(300_000_000))
    assert len(bomb) < 2 << 20
    peak, words = peak_bytes(bomb)
    assert peak < 4 << 20
    assert "unpacks to 300 MB; at most 268 MB are read" in words


def test_a_bomb_that_lies_about_its_size_is_not_unpacked():
    content = npy_header((1 << 24,)) + bytes(1 << 26)
    bomb = zip_of(q=content)
    lied = bomb.replace(struct.pack("<I", len(content)), struct.pack("<I", 4096))
    assert lied != bomb
    peak, words = peak_bytes(lied)
    assert peak < 1 << 20
    assert "damaged" in words or "too few bytes" in words


def test_a_directory_of_many_entries_is_refused_unread():
    crowded = zip_of(**{f"array{i}": b"" for i in range(3000)})
    peak, words = peak_bytes(crowded)
    assert peak < 1 << 20
    assert "directory is larger than" in words
    with pytest.raises(InvalidUpload, match="holds 70 arrays; at most 64"):
        read_upload(zip_of(**{f"array{i}": b"" for i in range(70)}))


def test_a_file_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_FILE_BYTES", 1000)
    with pytest.raises(InvalidUpload, match="at most 0 MB are read"):
        read_upload(GOOD)


def assert_read_or_refused(data):
    refusal, upload = "", None
    try:
        upload = read_upload(data)
    except (InvalidUpload, InvalidProblem) as error:
        refusal = str(error)
    assert 20 < len(refusal) < 1000 if upload is None else {"query", "key", "value"} <= set(upload.tensors)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    assert_read_or_refused(data)
    assert_read_or_refused(b"PK\x03\x04" + data + GOOD[-200:])
    assert_read_or_refused(struct.pack("<Q", len(data) + 1) + b"{" + data)


SAFE = packed(arrays())


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from([GOOD, SAFE]), st.data())
def test_a_good_file_with_any_damage_is_read_or_refused(good, data):
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    assert_read_or_refused(bytes(damaged))
    assert_read_or_refused(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F16", "BF16", "F32", "I8"]) | JSON,
        "shape": JSON,
        "data_offsets": JSON,
    },
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.sampled_from(["q", "k", "v", "o", "dq", "__metadata__", "x"]), ENTRY | JSON, max_size=5
    ),
    st.binary(max_size=64),
)
def test_any_header_is_read_or_refused(header, body):
    assert_read_or_refused(safetensors(header, body))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.dictionaries(
        st.sampled_from(["q", "k", "v", "do", "o", "lse", "dq", "dk", "dv", "x"]),
        st.tuples(
            st.lists(st.integers(0, 20), max_size=5),
            st.sampled_from(["f2", "f4", "f8", "i4", "c8", "U3", "?"]),
        ),
        max_size=6,
    )
)
def test_arrays_of_any_shape_and_type_are_read_or_refused(named):
    assert_read_or_refused(npz(**{name: np.zeros(shape, dtype) for name, (shape, dtype) in named.items()}))
