"""Files as a user, or somebody hostile, might upload them."""

import io
import json
import struct
import zipfile

import numpy as np

from kernels.check.files.uploads import InvalidUpload, read_upload
from kernels.problem import InvalidProblem

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
