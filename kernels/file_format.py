"""The first steps of every reader of the project's files: open an .npz file, check format and version."""

import io
import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, BinaryIO, ClassVar, Self

import msgspec
import numpy as np
from msgspec import Meta

Json = dict | list | str | int | float | bool | None
"""What json.loads gives."""
Amount = Annotated[float, Meta(ge=0, lt=1e30)]
"""A number in a file that a page draws: larger ones have no ticks on an axis."""
Milliseconds = Annotated[float, Meta(ge=1e-6, lt=1e30)]
"""A time in a file. It is divided by, and no call takes less than a nanosecond."""
Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
"""A whole number in a file, such as bytes."""
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d")]
"""A date, or a date and time, in ISO 8601."""
HEADER = "header"
"""Name of the array that holds the JSON header of an .npz file, as bytes."""
LONGEST_NAME = 100
"""Most characters that a message repeats of the name of another format."""


def format_mismatch(
    values: Json | dict[str, Any], formats: tuple[str, ...], version: int, *older: int
) -> str | None:
    """None if a JSON document has one of `formats` in `version` or one of `older`, else both formats.

    Example: "flash-attention-measurements version 9; expected flash-attention-measurements version 1".
    """
    header = values if isinstance(values, dict) else {}
    name, found_version = header.get("format"), header.get("version")
    if name in formats and found_version in (version, *older):
        return None
    given = f"{name} version {found_version}"[:LONGEST_NAME] if name else "a file that names no format"
    return f"{given}; expected {formats[0]} version {version}"


def strict(value: Json | tuple) -> Json:
    """The value with NaN and infinities as the strings "nan", "inf" and "-inf": JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    return [strict(item) for item in value] if isinstance(value, list | tuple) else value


class UnreadableFile(ValueError):
    """A file that is not of its format and version, or is damaged, or larger than a page takes."""


def write(path: Path, text: str) -> None:
    """Write the whole file or nothing: if the run is interrupted, the old file stays."""
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text)
    unfinished.replace(path)


def read_arrays(
    source: str | Path | BinaryIO | bytes, names: tuple[str, ...] | None = None
) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, or those of them in `names`. None is unpickled. Raises UnreadableFile."""
    try:
        with np.load(io.BytesIO(source) if isinstance(source, bytes) else source, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if names is None or name in names}
    except Exception as error:  # zipfile, zlib and NumPy raise errors of many kinds for damaged bytes
        raise UnreadableFile(str(error) or type(error).__name__) from error


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """A dataclass kept in one .npz file: its arrays, and a JSON header with all other fields. No pickle.

    A file that is none, or whose header is wrong, raises UnreadableFile. Shapes are taken as they are.
    """

    FORMAT: ClassVar[str]
    VERSIONS: ClassVar[tuple[int, ...]]
    """Of the files that are read; the first is written."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What the file holds: the arrays, and the header with all other fields. None is left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in values.items() if name not in arrays and value is not None}
        header = json.dumps({"format": self.FORMAT, "version": self.VERSIONS[0]} | plain, default=asdict)
        return arrays | {HEADER: np.frombuffer(header.encode(), np.uint8)}

    def save(self, target: str | Path | BinaryIO, compress: bool = True) -> None:
        write = np.savez_compressed if compress else np.savez
        write(target, allow_pickle=False, **self.arrays())

    def to_bytes(self, compress: bool = False) -> bytes:
        buffer = io.BytesIO()
        self.save(buffer, compress)
        return buffer.getvalue()

    @classmethod
    def header_of(cls, source: str | Path) -> dict[str, Any]:
        """The header of a file, without its arrays."""
        return cls._header(read_arrays(source, (HEADER,)))

    @classmethod
    def load(cls, source: str | Path | BinaryIO | bytes) -> Self:
        return cls.from_arrays(read_arrays(source))

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        values = cls._header(arrays) | {name: array for name, array in arrays.items() if name != HEADER}
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise UnreadableFile(f"a damaged file: {error}") from error

    @classmethod
    def _header(cls, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        try:
            header = json.loads(arrays[HEADER].tobytes())
        except (AttributeError, KeyError, ValueError, RecursionError) as error:
            raise UnreadableFile("it has no readable header") from error
        if mismatch := format_mismatch(header, (cls.FORMAT,), *cls.VERSIONS):
            raise UnreadableFile(f"this is {mismatch}")
        return header
