"""Files of measurements: `python -m kernels.measure`, `kernels.record` and the Measure page write them.

One JSON format holds measurements, ceilings and hardware counters; every entry names its device, versions and
date. A file may come from anywhere, so all of it is checked when it is read. Importing this file needs
neither torch nor triton.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.file_format import Json, format_mismatch
from kernels.measure.ceilings import Ceiling
from kernels.measure.counters import CounterRun
from kernels.measure.measurement import DIRECTIONS, Measurement, PeerResult
from kernels.problem import InvalidProblem

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT = "flash-attention-measurements"
FORMAT_VERSION = 1
RECORDINGS_FORMAT = "flash-attention-recordings"
"""The index of a folder of recordings, which holds measurements in the same form."""
MAX_FILE_BYTES = 16 << 20
MAX_TEXT = 6000
"""Most characters of a text in a file."""
LARGEST_NUMBER = 1e30
SHORTEST_MS = 1e-6
"""No call takes less."""
TOO_SHORT = f"expected at least {SHORTEST_MS:g} ms"
MAX_QUOTED = 300
"""Characters of another error that a message repeats."""

Entry = TypeVar("Entry")


class InvalidDocument(ValueError):
    """A file without measurements in the accepted version. The message says what is wrong and where."""


@dataclass(frozen=True)
class Document:
    """What was measured on one device or several, and the command that repeats it."""

    command: str = ""
    measurements: tuple[Measurement, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    counters: tuple[CounterRun, ...] = ()
    left_out: tuple[str, ...] = ()
    """What the command did not measure, because it ran out of time or failed."""

    @property
    def entries(self) -> tuple[Measurement | Ceiling | CounterRun, ...]:
        """Everything that has a device and a date."""
        return (*self.measurements, *self.ceilings, *self.counters)

    @property
    def devices(self) -> tuple[DeviceInfo, ...]:
        """Every device once, in the order of appearance."""
        return tuple(dict.fromkeys(entry.device for entry in self.entries))

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON, with the name and version of the format."""
        return {"format": FORMAT, "version": FORMAT_VERSION} | asdict(self)

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps(self.as_dict(), indent=1) + "\n"


def read_document(content: bytes | str) -> Document:
    """Read and check a file. Raises InvalidDocument, which says what was found and what is accepted."""
    if len(content) > MAX_FILE_BYTES:
        raise InvalidDocument(f"{len(content) / 1e6:.1f} MB; at most {MAX_FILE_BYTES / 1e6:.0f} MB are read")
    try:
        values = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"not JSON: {error}") from error
    if mismatch := format_mismatch(values, (FORMAT, RECORDINGS_FORMAT), FORMAT_VERSION):
        raise InvalidDocument(f"this is {mismatch}, as python -m kernels.measure --out writes")
    return Document(
        command=_checked_text("command", values.get("command", "")),
        measurements=_read_list(values, "measurements", _measurement),
        ceilings=_read_list(values, "ceilings", _ceiling),
        counters=_read_list(values, "counters", _counter_run),
        left_out=_read_list(values, "left_out", lambda text: _checked_text("left_out", text)),
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _read_list(values: dict, name: str, read: Callable[[Any], Entry]) -> tuple[Entry, ...]:
    """The entries of one list of the document.

    Raises InvalidDocument with the index of the first damaged one.
    """
    items = values.get(name, [])
    if not isinstance(items, list):
        raise InvalidDocument(f"{name} is {type(items).__name__}; expected a list")
    entries = []
    for index, item in enumerate(items):
        try:
            entries.append(read(item))
        except KeyError as error:
            raise InvalidDocument(f"{name}[{index}] has no {error}") from error
        except (InvalidProblem, InvalidDocument) as error:
            raise InvalidDocument(f"{name}[{index}]: {error}") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidDocument(f"{name}[{index}] is damaged: {str(error)[:MAX_QUOTED]}") from error
    return tuple(entries)


def _measurement(values: dict) -> Measurement:
    measurement = Measurement.from_dict(values)
    _check_origin(measurement)
    for result in measurement.results:
        _check_result(result)
    if measurement.gpu is not None:
        _check_fields(measurement.gpu)
    return measurement


def _ceiling(values: dict) -> Ceiling:
    ceiling = Ceiling.from_dict(values)
    _check_origin(ceiling)
    _check_fields(ceiling)
    _check_timing(ceiling.timing)
    if not ceiling.work >= 1:
        raise InvalidDocument(f"work={ceiling.work!r} is not accepted: expected at least 1 byte or operation")
    return ceiling


def _counter_run(values: dict) -> CounterRun:
    run = CounterRun.from_dict(values)
    _check_origin(run)
    _checked_text("peer", run.peer)
    _check_direction(run.direction)
    if not run.kernels:
        raise InvalidDocument("it names no kernel")
    for kernel in run.kernels:
        _check_fields(kernel)
        for name, value in kernel.metrics.items():
            _check_number(_checked_text("metric", name), value)
        if kernel.time_ms < SHORTEST_MS:
            raise InvalidDocument(f"{kernel.name[:MAX_QUOTED]} takes {kernel.time_ms:g} ms; {TOO_SHORT}")
    for operation in run.counted:
        _check_fields(operation)
    return run


def _check_origin(entry: Measurement | Ceiling | CounterRun) -> None:
    _check_fields(entry.device)
    recorded_at = _checked_text("recorded_at", entry.recorded_at)
    try:
        datetime.fromisoformat(recorded_at)
    except ValueError:
        raise InvalidDocument(
            f"recorded_at={recorded_at[:40]!r} is not accepted: expected a date and time in ISO 8601"
        ) from None


def _check_result(result: PeerResult) -> None:
    _check_fields(result)
    _check_direction(result.direction)
    if result.timing is None and not result.refused:
        raise InvalidDocument(f"{result.peer} has neither a timing nor a reason why not")
    if result.timing is not None and (result.refused or result.out_of_memory):
        raise InvalidDocument(f"{result.peer} has both a timing and a reason why not")
    if result.timing is not None:
        _check_timing(result.timing)
        _check_number("peak_extra_bytes", result.peak_extra_bytes)
    if result.naive_ratio is not None:
        _check_ratio(result.naive_ratio)


def _check_ratio(ratio: tuple[float, ...]) -> None:
    """Its items are numbers already, as _check_fields requires."""
    if not (isinstance(ratio, tuple) and len(ratio) == 2 and 0 < ratio[0] <= ratio[1]):
        raise InvalidDocument(
            f"naive_ratio={str(ratio)[:40]!r} is not accepted: "
            "expected two numbers, 0 < 10th percentile <= 90th percentile"
        )


def _check_direction(direction: Json) -> None:
    if direction not in DIRECTIONS:
        raise InvalidDocument(
            f"direction={str(direction)[:MAX_QUOTED]!r} is not accepted: "
            f"expected one of {', '.join(DIRECTIONS)}"
        )


def _check_timing(timing: Timing) -> None:
    if not isinstance(timing, Timing):
        raise InvalidDocument("timing is missing")
    for name in ("low_ms", "median_ms", "high_ms"):
        _check_number(name, getattr(timing, name))
    if not 0 < timing.low_ms <= timing.median_ms <= timing.high_ms:
        given = f"{timing.low_ms:g}, {timing.median_ms:g}, {timing.high_ms:g}"
        raise InvalidDocument(
            f"timing {given} ms is not accepted: expected 0 < 10th percentile <= median <= 90th percentile"
        )
    if timing.low_ms < SHORTEST_MS:
        raise InvalidDocument(f"timing of {timing.low_ms:g} ms is not accepted: {TOO_SHORT}")
    _check_number("samples", timing.samples)


def _check_fields(entry: DataclassInstance) -> None:
    """Every text of a dataclass is a short text, and every number is finite and at least 0.

    What has a class of its own has a check of its own.
    """
    for field in fields(entry):
        value, kind = getattr(entry, field.name), str(field.type)
        if value is None and kind.endswith("None"):
            continue
        if kind == "bool":
            if not isinstance(value, bool):
                raise InvalidDocument(f"{field.name} is {type(value).__name__}; expected true or false")
        elif kind.startswith(("str", "tuple[str")):
            for item in value if kind.startswith("tuple") else (value,):
                _checked_text(field.name, item)
        elif kind.startswith(("int", "float", "tuple[float")):
            for item in value if kind.startswith("tuple") else (value,):
                _check_number(field.name, item)


def _checked_text(name: str, value: Json) -> str:
    if not isinstance(value, str):
        raise InvalidDocument(f"{name} is {type(value).__name__}; expected a text")
    if len(value) > MAX_TEXT:
        raise InvalidDocument(f"{name} has {len(value):,} characters; expected at most {MAX_TEXT:,}")
    return value


def _check_number(name: str, value: Json) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST_NUMBER:
        return  # NaN fails this comparison
    raise InvalidDocument(f"{name}={str(value)[:40]!r} is not accepted: expected a number from 0")
