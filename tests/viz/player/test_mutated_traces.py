"""Recordings with one array changed: read_trace refuses the file in words, or the player draws it."""

import io

import numpy as np
import pytest

from kernels.check.files.trace_file import read_trace
from kernels.check.files.uploads import InvalidUpload
from kernels.device.gpus import GPUS
from kernels.recordings import FOLDER
from kernels.trace.trace import PER_ROW, PER_STEP
from viz.player.data import player_data

STEPWISE = (*PER_STEP, *PER_ROW, "tensor_bytes_read", "tensor_bytes_written", "gradient_distance")
NAMES = ("tiny.flash2", "tiny.standard", "tiny.backward", "decode.split_kv")


def whole(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = {each: file[each] for each in file.files}
    return {each: values for each, values in arrays.items() if each not in ("acc", "acc_dk", "acc_dv")}


def saved(arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def drawn(arrays):
    """Whether a file is drawn; False if it is refused."""
    try:
        trace = read_trace(saved(arrays))
    except InvalidUpload:
        return False
    assert player_data(trace, "here", GPUS["H200"])["steps"]["count"]
    return True


def changes(values):
    """An array in other ways: all alike, infinite or NaN, in another order."""
    yield np.zeros_like(values)
    yield np.full_like(values, values.max(initial=0))
    yield np.random.default_rng(0).permutation(values)
    if np.issubdtype(values.dtype, np.floating):
        yield from (np.full_like(values, each) for each in (np.nan, np.inf, -np.inf))
    else:
        yield from (np.full_like(values, each) for each in (1, np.iinfo(values.dtype).max))


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_with_one_changed_array_is_drawn_or_refused(name):
    arrays = whole(name)
    results = [
        drawn(arrays | {each: values})
        for each in (*STEPWISE, "lse")
        if each in arrays
        for values in changes(arrays[each])
    ]
    assert True in results
    assert False in results


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_without_some_of_its_steps_is_drawn_or_refused(name):
    arrays = whole(name)
    steps = len(arrays["program"])
    stepwise = [each for each in arrays if each in STEPWISE or each.startswith("matrix ")]
    for part in ((0, 1), (0, 3), (-3, None), (0, steps // 2), (steps // 2, None), (0, None, 2)):
        drawn(arrays | {each: arrays[each][slice(*part)] for each in stepwise})
