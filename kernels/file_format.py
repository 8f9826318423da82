"""The first check of every reader of the project's JSON documents: their format and its version."""

from __future__ import annotations

Json = dict | list | str | int | float | bool | None
"""What json.loads gives."""
LONGEST_NAME = 100
"""Most characters that a message repeats of the name of another format."""


def format_mismatch(values: Json, formats: tuple[str, ...], version: int) -> str | None:
    """None if a JSON document has one of `formats` in `version`, else its own format and the expected one.

    Example: "flash-attention-measurements version 9; expected flash-attention-measurements version 1".
    """
    header = values if isinstance(values, dict) else {}
    name, found_version = header.get("format"), header.get("version")
    if name in formats and found_version == version:
        return None
    given = f"{name} version {found_version}"[:LONGEST_NAME] if name else "a file that names no format"
    return f"{given}; expected {formats[0]} version {version}"
