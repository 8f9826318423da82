"""document.py: what is written is read back; a refusal names the place that is wrong."""

import json

import pytest

from kernels.measure.document import Document, InvalidDocument, read_document
from kernels.recordings import FILES, FOLDER, INDEX, recorded_document
from tests.kernels.documents import DEVICE, document


def changed(path, value):
    """The document's JSON with one value replaced; `path` is keys and indices."""
    values = json.loads(document().to_json())
    parent = values
    for key in path[:-1]:
        parent = parent[key]
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return json.dumps(values)


def test_a_document_survives_json():
    assert read_document(document().to_json()) == document()
    assert read_document(document().to_json().encode()) == document()


def test_every_device_is_named_once():
    assert document().devices == (DEVICE,)
    assert Document().devices == ()


RESULT = ("measurements", 0, "results", 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("[]", "this is a file that names no format; expected flash-attention-measurements version 1"),
        (
            '{"format": "flash-attention-measurements", "version": 9}',
            "this is flash-attention-measurements version 9; expected .* version 1",
        ),
        (changed(("measurements",), {"a": 1}), "measurements is dict; expected a list"),
        (
            changed(("measurements", 0, "problem", "head_dim"), 300),
            r"measurements\[0\]: head_dim=300 is not accepted: expected 16 to 256",
        ),
        (changed(("measurements", 1, "problem"), None), r"measurements\[1\] has no 'problem'"),
        (changed(("measurements", 0, "device", "color"), "red"), r"measurements\[0\] is damaged: .*color"),
        (changed(("measurements", 0, "device", "name"), 5), "name is int; expected a text"),
        (
            changed(("measurements", 0, "recorded_at"), "yesterday"),
            "recorded_at='yesterday' is not accepted: expected a date",
        ),
        (
            changed((*RESULT, "direction"), "up"),
            "direction='up' is not accepted: expected one of forward, backward",
        ),
        (
            changed((*RESULT, "timing", "median_ms"), -1),
            "median_ms='-1' is not accepted: expected a number from 0",
        ),
        (
            changed((*RESULT, "timing", "median_ms"), 99),
            "expected 0 < 10th percentile <= median <= 90th percentile",
        ),
        (changed((*RESULT, "timing", "median_ms"), "fast"), "median_ms='fast' is not accepted"),
        *(
            (
                changed((*RESULT, "naive_ratio"), ratio),
                r"naive_ratio=.* is not accepted: expected two numbers, 0 <",
            )
            for ratio in ([], [1.0], [1.0, 2.0, 3.0], [2.0, 1.0], [0.0, 1.0])
        ),
        (changed((*RESULT, "naive_ratio"), ["1", "2"]), "naive_ratio='1' is not accepted: expected a number"),
        (changed((*RESULT, "naive_ratio"), 5), "is damaged"),
        (changed((*RESULT, "timing"), []), "naive has neither a timing nor a reason why not"),
        (changed((*RESULT, "peak_extra_bytes"), 1e40), "peak_extra_bytes='1e\\+40' is not accepted"),
        (changed((*RESULT, "peak_extra_bytes"), 10**400), "peak_extra_bytes='1000.*' is not accepted"),
        (changed((*RESULT, "peer"), "x" * 10_000), "peer has 10,000 characters; expected at most 6,000"),
        (changed(("measurements", 0, "gpu", "slowed_by"), [3]), "slowed_by is int"),
        (changed(("ceilings", 0, "kind"), "wall"), "kind='wall' is not accepted: expected copy or product"),
        (changed(("ceilings", 0, "timing"), None), r"ceilings\[0\] has no 'timing'"),
        (
            changed(("counters", 0, "kernels", 0, "metrics", "dram__bytes_read.sum"), None),
            r"counters\[0\] has no 'dram__bytes_read.sum'",
        ),
        (
            changed(("counters", 0, "kernels", 0, "metrics", "lts__t_bytes.sum"), "many"),
            "lts__t_bytes.sum='many' is not accepted",
        ),
        (changed(("counters", 0, "counted", 0, "bytes_read"), -5), "bytes_read='-5' is not accepted"),
        (changed((*RESULT, "peer"), {"a": 1}), r"measurements\[0\]: peer is dict; expected a text"),
        (changed((*RESULT, "peer"), [None]), "peer is list; expected a text"),
        (changed((*RESULT, "host_ms"), {}), "host_ms='{}' is not accepted"),
        (changed((*RESULT, "host_ms"), True), "host_ms='True' is not accepted"),
        (changed((*RESULT, "naive_ratio"), [1, "a"]), "naive_ratio='a' is not accepted"),
        (changed((*RESULT, "naive_ratio"), 5), r"measurements\[0\] is damaged"),
        (changed((*RESULT, "out_of_memory"), 1), "out_of_memory is int; expected true or false"),
        (changed((*RESULT, "out_of_memory"), True), "naive has both a timing and a reason why not"),
        (changed((*RESULT, "refused"), "too late"), "naive has both a timing and a reason why not"),
        (changed((*RESULT, "refused"), {"a": 1}), "refused is dict; expected a text"),
        (
            changed((*RESULT, "timing", "low_ms"), 5e-324),
            "e-324 ms is not accepted: expected at least 1e-06",
        ),
        (changed(("measurements", 0, "device", "name"), {}), "name is dict; expected a text"),
        (changed(("ceilings", 0, "dtype"), {"a": 1}), r"ceilings\[0\]: dtype is dict; expected a text"),
        (changed(("ceilings", 0, "work"), 0), "work=0 is not accepted: expected at least 1 byte or"),
        (changed(("ceilings", 0, "work"), "all"), "work='all' is not accepted"),
        (changed(("counters", 0, "kernels"), []), r"counters\[0\]: it names no kernel"),
        (changed(("counters", 0, "peer"), [1]), r"counters\[0\]: peer is list; expected a text"),
        (changed(("counters", 0, "direction"), {}), r"counters\[0\]: direction='{}' is not accepted"),
        (
            changed(("counters", 0, "kernels", 0, "metrics", "gpu__time_duration.sum"), 0),
            "_attn_fwd takes 0 ms; expected at least 1e-06 ms",
        ),
        (changed(("command",), 5), "command is int; expected a text"),
        (changed(("left_out",), [1]), "left_out is int"),
        (" " * (17 << 20), "17.8 MB; at most 17 MB are read"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(content, message):
    with pytest.raises(InvalidDocument, match=message):
        read_document(content)


def test_measurements_of_a_folder_of_recordings_are_read():
    recorded = read_document((FOLDER / INDEX).read_bytes())
    assert len(recorded.measurements) > 0
    assert recorded.command.startswith("python -m kernels.record")


@pytest.mark.parametrize("part", FILES)
def test_what_is_shipped_is_whole_and_small(part):
    path = FOLDER / FILES[part]
    recorded = recorded_document(part)
    if not path.exists():
        assert recorded == Document()
        return
    assert path.stat().st_size < 2e6
    assert recorded.command.startswith("python -m kernels.record")
    assert recorded.measurements or recorded.ceilings or recorded.counters or recorded.left_out
    for device in recorded.devices:
        assert device.backend == "cuda"
        assert device.driver
