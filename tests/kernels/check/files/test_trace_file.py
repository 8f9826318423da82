"""A saved trace from the user: what is read, and what is refused with which words.

`tests/kernels/trace/test_files.py` has what every file of a trace is refused for.
"""

import io
import zipfile
from dataclasses import asdict, replace

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.check.files import trace_file
from kernels.check.files.trace_file import read_trace
from kernels.check.files.uploads import InvalidUpload
from kernels.recordings import FOLDER, LANES_PREFIX, RANKS_PREFIX
from kernels.trace import Trace
from kernels.trace.sample import Sample
from tests.anywhere import ANYWHERE
from tests.kernels.helpers import tiny
from tests.kernels.trace.test_files import changed, saved

PROBLEM = tiny(40, 40, q_heads=2, kv_heads=2, mask="causal")


@pytest.fixture(scope="module")
def whole():
    return run_traced(PROBLEM)


def with_header(trace, **changes):
    return changed(trace, lambda header: header.update(changes))


def refused(data):
    with pytest.raises(InvalidUpload) as caught:
        read_trace(data)
    return str(caught.value)


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_what_explore_saves_is_read(algorithm):
    trace = run_traced(PROBLEM.with_(q_len=12, kv_len=20, q_heads=1, kv_heads=1), algorithm)
    again = read_trace(trace.to_bytes(compress=True))
    assert again.problem == trace.problem
    np.testing.assert_array_equal(again.kv_tile, trace.kv_tile)
    np.testing.assert_array_equal(again.output, trace.output)


LANES = sorted(FOLDER.glob(f"{LANES_PREFIX}*.npz"))
RANKS = sorted(FOLDER.glob(f"{RANKS_PREFIX}*.npz"))


@pytest.mark.parametrize(
    "path", sorted(set(FOLDER.glob("*.npz")) - {*LANES, *RANKS}), ids=lambda path: path.stem
)
def test_every_shipped_recording_is_read(path):
    assert read_trace(path.read_bytes()).steps


def test_a_sample_is_read_unless_its_steps_contradict_it():
    sampled = run_traced(PROBLEM, "flash2", Sample((1,), (0, 2)))
    again = read_trace(sampled.to_bytes())
    assert (again.sample, again.output.shape) == (Sample((1,), (0, 2)), (1, 1, 24, 16))
    run = run_traced(PROBLEM.with_(q_len=1, kv_splits=2), "split_kv", Sample((1,)))
    assert read_trace(run.to_bytes()).program.tolist() == run.program.tolist()
    others = changed(sampled, q_tile=np.ones_like(sampled.q_tile))
    assert "its sample does not name" in refused(others)


def test_lanes_and_a_huge_file_are_refused(whole, monkeypatch):
    assert "This is not a trace that can be shown: this is " in refused(LANES[0].read_bytes())
    monkeypatch.setattr(trace_file, "MAX_UNPACKED_BYTES", 1 << 20)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("acc.npy", bytes(2 << 20))
    assert "unpacks to 2.1 MB" in refused(buffer.getvalue())
    monkeypatch.setattr(trace_file, "MAX_FILE_BYTES", 1000)
    assert "at most 0 MB" in refused(whole.to_bytes())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": "nonsense"}, "algorithm='nonsense'"),
        ({"algorithm": "flash1"}, "not those of FlashAttention-1"),
        ({"problem": PROBLEM.as_dict() | {"q_len": 77}}, "expected (1, 2, 77, 16)"),
        ({"kernels": ["x"]}, "its kernels"),
        ({"launches": []}, "launched"),
        ({"launches": [{"num_warps": "many", "num_stages": 1}]}, "num_warps"),
        ({"q_tile": lambda a: a + 3}, "q_tile has values outside of -1 to 2"),
        ({"q_tile": lambda a: a.astype(float)}, "q_tile does not hold"),
        ({"tensor_bytes_read": lambda a: -a}, "tensor_bytes_read has values"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_header_and_wrong_arrays_are_refused(whole, changes, words):
    ((name, change),) = changes.items()
    if callable(change):
        data = changed(whole, **{name: change(getattr(whole, name))})
    else:
        data = with_header(whole, **changes)
    assert words in refused(data)


@pytest.mark.parametrize(("name", "words"), [("row_max", "no row_max"), ("program", "damaged file")])
def test_missing_arrays_are_refused(whole, name, words):
    arrays = whole.arrays()
    del arrays[name]
    assert words in refused(saved(**arrays))


SPLIT = Trace.load(FOLDER / "decode.split_kv.npz")
COMBINES = SPLIT.kernel == 1
LAST = {name: values[-3:] for name, values in SPLIT.arrays().items() if values.shape[:1] == (SPLIT.steps,)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"program": np.arange(SPLIT.steps, dtype=np.int32)}, "split the keys"),
        ({"program": np.where(COMBINES & (SPLIT.program > 5), 5, SPLIT.program)}, "combine"),
        ({"batch_head": SPLIT.batch_head[::-1]}, "several heads"),
        ({"kernel": np.ones_like(SPLIT.kernel)}, "_attn_split_kv"),
        ({"start_ns": SPLIT.start_ns - 1}, "start_ns"),
        ({"sm": SPLIT.sm + (1 << 16)}, "sm has values"),
        (LAST, "no step of the kernel _attn_split_kv"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_steps_that_are_not_of_their_programs_kernels_or_clock_are_refused(changes, words):
    assert words in refused(changed(SPLIT, **changes))


def test_pages_outside_of_the_pool_or_none_are_refused():
    run = run_traced(PROBLEM.with_(q_len=1, kv_splits=2), "paged")
    assert np.array_equal(read_trace(run.to_bytes()).page, run.page)
    assert "page has values outside" in refused(changed(run, page=run.page + 100))
    assert "in which page" in refused(replace(run, page=None).to_bytes())


def test_a_clock_of_a_device_without_sms_and_a_huge_grid_are_refused(whole):
    device = asdict(SPLIT.device) | {"sm_count": 0}
    assert "a clock, and its device has 0 SMs" in refused(with_header(SPLIT, device=device))
    without = replace(whole, output=None, lse=None)
    huge = PROBLEM.as_dict() | {"q_len": 1 << 20, "kv_len": 1 << 20}
    assert "tiles; at most" in refused(with_header(without, problem=huge))
