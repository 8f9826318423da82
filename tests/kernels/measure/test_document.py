"""document.py: what is written is read back; what a file may not hold is refused with its place."""

import functools
import json
import operator

import pytest

from kernels.file_format import UnreadableFile
from kernels.measure.document import Document, read_document
from kernels.recordings import FILES, FOLDER, INDEX, recorded_document
from tests.kernels.documents import DEVICE, document


def changed(place, value=None):
    """The document's JSON with one value replaced or left out; `place` is keys and indices."""
    values = json.loads(document().to_json())
    *keys, last = [int(key) if key.isdigit() else key for key in place.split("/")]
    parent = functools.reduce(operator.getitem, keys, values)
    if value is None:
        del parent[last]
    else:
        parent[last] = value
    return json.dumps(values)


def test_a_document_survives_json_and_names_every_device_once():
    assert read_document(document().to_json()) == document()
    assert read_document(document().to_json().encode()) == document()
    assert document().devices == (DEVICE,)
    assert Document().devices == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a": NaN}', "not JSON"),
        ("[]", "names no format; expected flash-attention-measurements version 1"),
        ('{"format": "flash-attention-measurements", "version": 9}', "version 9; expected .* version 1"),
        (" " * (17 << 20), "17.8 MB; at most 17 MB are read"),
    ],
)
def test_a_file_of_another_kind_is_refused(content, message):
    with pytest.raises(UnreadableFile, match=message):
        read_document(content)


RESULT = "measurements/0/results/0"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("measurements/1/problem", None),
        ("measurements/0/problem/head_dim", 300),
        ("measurements/0/recorded_at", "yesterday"),
        (f"{RESULT}/direction", "up"),
        (f"{RESULT}/timing/median_ms", -1),
        (f"{RESULT}/timing/low_ms", 5e-324),
        (f"{RESULT}/naive_ratio", [1.0]),
        (f"{RESULT}/peak_extra_bytes", 10**400),
        (f"{RESULT}/host_ms", 1e40),
        ("ceilings/0/work", 0),
        ("counters/0/kernels/0/metrics/dram__bytes_read.sum", None),
        ("counters/0/kernels/0/metrics/gpu__time_duration.sum", 0),
        ("counters/0/counted/0/bytes_read", -5),
    ],
)
def test_a_value_that_no_page_could_show_is_refused_with_its_place(place, value):
    list_name, *index = place.split("/")[:2]
    where = f"{list_name}[{index[0]}]" if index else list_name
    with pytest.raises(UnreadableFile) as refused:
        read_document(changed(place, value))
    assert where in str(refused.value)


def test_measurements_of_a_folder_of_recordings_are_read():
    assert read_document((FOLDER / INDEX).read_bytes()).measurements


@pytest.mark.parametrize("part", FILES)
def test_what_is_shipped_is_whole_and_small(part):
    recorded = recorded_document(part)
    assert (FOLDER / FILES[part]).stat().st_size < 2e6
    assert recorded.command.startswith(("python -m kernels.record", "torchrun"))
    assert recorded.entries
    assert all(device.backend == "cuda" and device.driver for device in recorded.devices)
