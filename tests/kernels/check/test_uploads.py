"""Files from anywhere: a valid one is read, any other is refused in words; nothing in a file is run."""

import contextlib
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.check import uploads
from kernels.check.file_rules import InvalidUpload
from kernels.check.uploads import read_upload
from kernels.problem import AttentionProblem, InvalidProblem
from tests.kernels.check.files import SHAPE, arrays, npy_header, npz, packed, read_or_refused

GOOD = npz(**arrays())


@pytest.mark.parametrize("write", [npz, lambda **named: packed(named)], ids=["npz", "safetensors"])
def test_the_shape_and_dtype_of_a_file_become_the_problem(write):
    upload = read_upload(write(**arrays()))
    assert upload.facts.problem(AttentionProblem(mask="causal")) == AttentionProblem(
        q_heads=2, kv_heads=2, q_len=8, kv_len=8, head_dim=16, dtype="float16", mask="causal"
    )


def test_names_may_be_written_in_many_ways_and_others_are_left_alone():
    names = ("Query", "KEY", "v", "softmax_lse", "Out")
    named = dict(zip(names, arrays(names="abcde").values(), strict=True))
    named |= {"softmax_lse": named["softmax_lse"][..., 0], "note": np.array(["text is not even read"])}
    facts = read_upload(npz(**named)).facts
    assert set(facts.names) == {"query", "key", "value", "lse", "output"}
    assert facts.ignored == ("note",)
    assert facts.has_output


def test_values_that_are_not_finite_are_read():
    named = arrays("float32")
    named["q"][:] = np.nan
    named["k"][0, 0, 0] = np.inf
    assert np.isnan(read_upload(npz(**named)).tensors["query"].array).all()


BAD = {
    "empty": (b"", "The file is empty"),
    "text": (b"query,key,value\n1,2,3\n", "neither an .npz nor a .safetensors"),
    "pickle": (pickle.dumps({"q": 1}), "neither an .npz nor a .safetensors"),
    "pickled array": (arrays()["q"].dumps(), "neither an .npz nor a .safetensors"),
    "single array": (npy_header((2,)) + b"12345678", "a single .npy array"),
    "no query": (npz(**arrays(names="kv")), "There is no query in the file, which holds 'k', 'v'"),
    "two queries": (npz(**arrays(), query=arrays()["q"]), "'query' is a second query"),
    "rank 3": (
        npz(**{name: array[0] for name, array in arrays().items()}),
        r"query has shape \(2, 8, 16\); expected \(batch, heads, length, head_dim\)",
    ),
    "scalar": (npz(**arrays(names="kv"), q=np.float16(1)), r"query has shape \(\)"),
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
        r"value has shape \(1, 2, 9, 16\); expected \(1, 2, 8, 16\), from the shape of key",
    ),
    "lse of another length": (
        npz(**arrays(names="qkvo"), lse=np.zeros((1, 2, 9), np.float32)),
        r"lse has shape \(1, 2, 9\); expected \(1, 2, 8\), from the shape of query",
    ),
    "lse without o": (npz(**arrays(), lse=np.zeros((1, 2, 8), np.float32)), "The file has lse but no output"),
    "one gradient": (npz(**arrays(), o=arrays()["q"], dq=arrays()["q"]), "Save all four"),
    "gradients without o": (
        npz(**arrays(), do=arrays()["q"], dq=arrays()["q"], dk=arrays()["k"], dv=arrays()["v"]),
        "The file has gradients but no output",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_accepted_is_refused_in_words(name):
    data, words = BAD[name]
    with pytest.raises(InvalidUpload, match=words):
        read_upload(data)


@pytest.mark.parametrize("shape", [(1, 1, 0, 16), (1, 1, 8, 7), (1, 1, 8, 512), (0, 1, 8, 16)])
def test_a_shape_that_no_kernel_takes_is_refused_by_the_problem(shape):
    with pytest.raises(InvalidProblem, match="is not accepted: expected"):
        read_upload(npz(**arrays(shape=shape)))


def test_a_file_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_FILE_BYTES", 1000)
    with pytest.raises(InvalidUpload, match="at most 0 MB are read"):
        read_upload(GOOD)


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


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    read_or_refused(data)
    read_or_refused(b"PK\x03\x04" + data + GOOD[-200:])
    read_or_refused(struct.pack("<Q", len(data) + 1) + b"{" + data)


NAMED_SHAPES = st.dictionaries(
    st.sampled_from(["q", "k", "v", "do", "o", "lse", "dq", "dk", "dv", "x"]),
    st.tuples(
        st.sampled_from([SHAPE, SHAPE[:3]]) | st.lists(st.integers(0, 20), max_size=5),
        st.sampled_from(["f2", "f4", "f8", "i4", "c8", "U3", "?"]),
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(NAMED_SHAPES)
def test_arrays_of_any_shape_and_type_are_read_or_refused(named):
    read_or_refused(npz(**{name: np.zeros(shape, dtype) for name, (shape, dtype) in named.items()}))
