"""A saved trace from the user: what is read, and what is refused with which words."""

import io
import json
import zipfile

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.check import trace_file
from kernels.check.file_rules import InvalidUpload
from kernels.check.trace_file import read_trace
from kernels.problem import AttentionProblem
from kernels.recordings import FOLDER, LANES_PREFIX
from kernels.trace.sample import Sample
from tests.anywhere import ANYWHERE

PROBLEM = AttentionProblem(
    q_len=40, kv_len=40, head_dim=16, block_m=16, block_n=16, q_heads=2, kv_heads=2, mask="causal"
)


@pytest.fixture(scope="module")
def whole():
    return run_traced(PROBLEM).to_bytes(compress=True)


@pytest.fixture(scope="module")
def sampled():
    return run_traced(PROBLEM, "flash2", Sample((1,), (0, 2))).to_bytes()


def arrays_of(data):
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def saved(arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def with_header(data, **changes):
    arrays = arrays_of(data)
    header = json.loads(arrays["header"].tobytes()) | changes
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return saved(arrays)


def refused(data):
    with pytest.raises(InvalidUpload) as caught:
        read_trace(data)
    return str(caught.value)


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_what_explore_saves_is_read(algorithm):
    trace = run_traced(PROBLEM, algorithm)
    again = read_trace(trace.to_bytes(compress=True))
    assert again.problem == PROBLEM
    np.testing.assert_array_equal(again.kv_tile, trace.kv_tile)
    np.testing.assert_array_equal(again.output, trace.output)


LANES = sorted(FOLDER.glob(f"{LANES_PREFIX}*.npz"))


@pytest.mark.parametrize("path", sorted(set(FOLDER.glob("*.npz")) - set(LANES)), ids=lambda path: path.stem)
def test_every_shipped_recording_is_read(path):
    assert read_trace(path.read_bytes()).steps


def test_a_file_of_lanes_is_refused_by_its_name():
    with pytest.raises(InvalidUpload, match="this is flash-attention-lanes"):
        read_trace(LANES[0].read_bytes())


def test_a_sample_is_read(sampled):
    assert read_trace(sampled).sample == Sample((1,), (0, 2))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "The file is empty"),
        (b"PK\x03\x04 no", "cut off"),
        (b"not a zip", "cut off: it has no directory at its end"),
        (saved({"q": np.zeros(3)}), "it has no readable header"),
        (
            saved({"header": np.frombuffer(b'{"format": "x", "version": 1}', np.uint8)}),
            "x version 1; expected",
        ),
        (saved({"header": np.array(["text"])}), "expected whole or floating-point numbers"),
    ],
    ids=["empty", "cut", "other", "tensors", "format", "text"],
)
def test_another_file_is_refused(data, words):
    assert words in refused(data)


def test_a_pickle_is_not_loaded():
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array([{"a": 1}], dtype=object))
    assert "expected whole or floating-point numbers" in refused(buffer.getvalue())


def test_a_truncated_file_is_refused(whole):
    for size in (len(whole) // 4, len(whole) // 2, len(whole) - 10):
        assert "cut off" in refused(whole[:size])


def test_a_file_of_a_future_version_names_both_versions(whole):
    assert "version 9; expected flash-attention-trace version" in refused(with_header(whole, version=9))


def test_a_huge_file_is_refused_before_it_is_unpacked(whole, monkeypatch):
    monkeypatch.setattr(trace_file, "MAX_FILE_BYTES", 1000)
    assert "at most 0 MB are read" in refused(whole)
    monkeypatch.undo()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("acc.npy", "w") as entry:
        for _ in range(600):
            entry.write(bytes(1 << 20))
    assert "unpacks to 629 MB; at most 537 MB" in refused(buffer.getvalue())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": "nonsense"}, "algorithm='nonsense' is not accepted"),
        ({"algorithm": "flash1"}, "its kernels are not those of FlashAttention-1"),
        ({"problem": {"q_len": 0}}, "q_len=0 is not accepted"),
        ({"problem": PROBLEM.as_dict() | {"q_len": 77}}, "expected (1, 2, 77, 16)"),
        ({"problem": 5}, "damaged trace file"),
        ({"kernels": ["x"]}, "its kernels are not those of FlashAttention-2"),
        ({"tensors": ["Q", "K", "V", "O", "?"]}, "its tensors are not those of FlashAttention-2"),
        ({"device": {"backend": "cuda"}}, "damaged trace file"),
        ({"recorded_at": 7}, "its date, its device or its tensors are not text"),
        ({"launches": []}, "how each kernel was launched"),
        ({"launches": [{"num_warps": "many", "num_stages": 1}]}, "how each kernel was launched"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_header_is_refused(whole, changes, words):
    assert words in refused(with_header(whole, **changes))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("q_tile", lambda a: a + 3, "q_tile has values outside of -1 to 2"),
        ("kv_tile", lambda a: a - 2, "kv_tile has values outside of -1 to 2"),
        ("batch_head", lambda a: a + 1, "batch_head has values outside of 0 to 1"),
        ("kernel", lambda a: a + 1, "kernel has values outside of 0 to 0"),
        ("program", lambda a: a - 1, "program has values outside"),
        ("q_tile", lambda a: a.astype(float), "q_tile does not hold whole numbers"),
        ("tensor_bytes_read", lambda a: -a, "negative bytes"),
        ("row_max", lambda a: a[:-1], "row_max has shape"),
        ("row_max", None, "it has no row_max"),
        ("program", None, "damaged trace file"),
        ("kv_tile", lambda a: a[:0], "kv_tile has shape"),
    ],
)
def test_wrong_arrays_are_refused(whole, name, change, words):
    arrays = arrays_of(whole)
    if change is None:
        del arrays[name]
    else:
        arrays[name] = change(arrays[name])
    assert words in refused(saved(arrays))


SPLIT = arrays_of((FOLDER / "decode.split_kv.npz").read_bytes())
STEPS = len(SPLIT["program"])
COMBINES = SPLIT["kernel"] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"program": np.zeros_like(SPLIT["program"])},
            "the programs that split the keys are not those of the",
        ),
        (
            {"program": np.arange(STEPS, dtype=np.int32)},
            "the programs that split the keys are not those of the",
        ),
        (
            {"program": np.where(COMBINES & (SPLIT["program"] > 5), 5, SPLIT["program"])},
            "do not combine equally many parts",
        ),
        ({"program": SPLIT["program"][::-1]}, "do not combine equally many parts"),
        ({"batch_head": SPLIT["batch_head"][::-1]}, "the parts of one program have several heads"),
        ({"kernel": np.ones_like(SPLIT["kernel"])}, "it has no step of the kernel _attn_split_kv"),
        ({"kernel": np.zeros_like(SPLIT["kernel"])}, "it has no step of the kernel _attn_combine"),
        ({"start_ns": SPLIT["start_ns"].astype(float)}, "start_ns does not hold whole numbers"),
        ({"start_ns": SPLIT["start_ns"] - 1}, "start_ns has values outside of 0 to"),
        ({"sm": SPLIT["sm"] + (1 << 16)}, "sm has values outside of 0 to 65535"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_steps_that_are_not_of_their_programs_kernels_or_clock_are_refused(changes, words):
    assert words in refused(saved(SPLIT | changes))


def test_steps_that_combine_parts_which_no_step_makes_are_refused():
    last = {name: values[-3:] for name, values in SPLIT.items() if values.shape[:1] == (STEPS,)}
    assert "it has no step of the kernel _attn_split_kv" in refused(saved(SPLIT | last))


def test_a_clock_of_a_device_without_sms_is_refused():
    device = json.loads(SPLIT["header"].tobytes())["device"] | {"sm_count": 0}
    assert "a clock, and its device has 0 SMs" in refused(with_header(saved(SPLIT), device=device))


def test_a_sample_of_a_run_that_splits_the_keys_is_read():
    run = run_traced(PROBLEM.with_(q_len=1, kv_splits=2), "split_kv", Sample((1,)))
    assert read_trace(run.to_bytes()).program.tolist() == run.program.tolist()


def test_a_sample_that_its_steps_contradict_is_refused(sampled):
    arrays = arrays_of(sampled)
    assert "its sample does not name" in refused(saved(arrays | {"q_tile": np.ones_like(arrays["q_tile"])}))


def test_a_trace_of_a_huge_grid_is_refused(whole):
    arrays = arrays_of(whole)
    for name in ("output", "lse"):
        del arrays[name]
    huge = PROBLEM.as_dict() | {"q_len": 1 << 20, "kv_len": 1 << 20}
    assert "tiles; at most" in refused(with_header(saved(arrays), problem=huge))
