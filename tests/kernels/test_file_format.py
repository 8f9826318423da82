"""The check of a JSON document's format and version."""

import pytest

from kernels.file_format import format_mismatch


@pytest.mark.parametrize(
    ("document", "given"),
    [
        ({"format": "sweep", "version": 3}, "sweep version 3"),
        ({"format": "other", "version": 2}, "other version 2"),
        ([], "a file that names no format"),
        ({"format": ["sweep"], "version": 2}, "['sweep'] version 2"),
    ],
)
def test_any_other_document_is_named_with_what_was_expected(document, given):
    assert format_mismatch({"format": "index", "version": 2}, ("sweep", "index"), 2) is None
    assert len(format_mismatch({"format": "x" * 10_000, "version": 2}, ("sweep",), 2)) < 200
    assert format_mismatch(document, ("sweep", "index"), 2) == f"{given}; expected sweep version 2"
