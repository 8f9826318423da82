"""The first check of every reader of the project's JSON documents: their format and its version."""

from __future__ import annotations

LONGEST_NAME = 100
"""Characters of a foreign format's name that a message repeats."""


def format_mismatch(values: object, formats: tuple[str, ...], version: int) -> str | None:
    """None if a JSON document has one of `formats` in `version`, else what was found and what was expected.

    An example: "flash-attention-measurements version 9; expected flash-attention-measurements version 1".
    """
    header = values if isinstance(values, dict) else {}
    name, found_version = header.get("format"), header.get("version")
    if name in formats and found_version == version:
        return None
    given = f"{name} version {found_version}"[:LONGEST_NAME] if name else "a file that names no format"
    return f"{given}; expected {formats[0]} version {version}"
