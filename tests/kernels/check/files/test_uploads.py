"""What the tensors of a file make up: a problem with results, or a refusal that says why."""

import numpy as np
import pytest

from kernels.check.files import uploads
from kernels.check.files.uploads import InvalidUpload, read_upload
from kernels.problem import AttentionProblem, InvalidProblem
from tests.kernels.check.files.made import arrays, npy_header, npz, packed


def test_the_shape_and_dtype_of_a_file_become_the_problem():
    assert read_upload(packed(arrays())).facts.problem(AttentionProblem(mask="causal")) == AttentionProblem(
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


@pytest.mark.parametrize(
    ("shape", "axes", "read", "doubtful"),
    [
        ((1, 2, 40, 16), None, "bhld", False),
        ((1, 40, 2, 16), None, "bhld", True),
        ((1, 40, 2, 16), "bhld", "bhld", True),
        ((1, 40, 2, 16), "blhd", "blhd", False),
        ((1, 3000, 2, 16), None, "blhd", False),
    ],
)
def test_the_order_of_the_axes_is_found_or_chosen(shape, axes, read, doubtful):
    named = arrays(shape=shape)
    upload = read_upload(npz(**named), axes)
    assert (upload.facts.axes, upload.facts.doubtful) == (read, doubtful)
    query = named["q"].swapaxes(1, 2) if read == "blhd" else named["q"]
    assert np.array_equal(upload.tensors["query"].array, query)


LSE = np.zeros((1, 2, 8), np.float32)
GRADIENTS = dict.fromkeys(["do", "dq", "dk", "dv"], arrays()["q"])
BAD = {
    "empty": (b"", "empty"),
    "text": (b"query,key,value\n1,2,3\n", "neither"),
    "single array": (npy_header((2,)) + b"12345678", "single"),
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


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_accepted_is_refused_in_words(name):
    data, words = BAD[name]
    with pytest.raises((InvalidUpload, InvalidProblem), match=words):
        read_upload(data)


def test_a_file_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_FILE_BYTES", 1000)
    with pytest.raises(InvalidUpload, match="MB"):
        read_upload(npz(**arrays()))
