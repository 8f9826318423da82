"""Files of measurements: what `python -m kernels.measure` and `python -m kernels.record` write, and the app reads.

One JSON format for measurements, ceilings and hardware counters; every entry names its device, versions and date. A file may come
from anywhere, so that all of it is checked on load. Importing this file needs neither torch nor triton.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.measure.ceilings import Ceiling
from kernels.measure.counters import CounterRun
from kernels.measure.measurement import DIRECTIONS, Measurement, PeerResult
from kernels.problem import InvalidProblem

FORMAT = "flash-attention-measurements"
FORMAT_VERSION = 1
MAX_FILE_BYTES = 16 << 20
RECORDINGS_FORMAT = "flash-attention-recordings"
"""The index of a folder of recordings holds measurements too, in the same form."""
MAX_WORDS = 300
"""Longest text that a field may hold."""


class InvalidDocument(ValueError):
    """A file that is not a set of measurements of this version. The message says where it is wrong."""


@dataclass(frozen=True)
class Document:
    """What was measured on one device or several, and the command that does it again."""

    command: str = ""
    measurements: tuple[Measurement, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    counters: tuple[CounterRun, ...] = ()
    left_out: tuple[str, ...] = ()
    """What the command would have measured but for its time limit, or could not, and why."""

    @property
    def devices(self) -> tuple[DeviceInfo, ...]:
        """Every device named, each once, in the order of appearance."""
        entries = (*self.measurements, *self.ceilings, *self.counters)
        return tuple(dict.fromkeys(entry.device for entry in entries))

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON, with the name and version of the format."""
        return {"format": FORMAT, "version": FORMAT_VERSION} | asdict(self)

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def with_(self, **changes: object) -> Document:
        """A copy with some fields changed."""
        return replace(self, **changes)


def read_document(content: bytes | str) -> Document:
    """Read and check a file. Raises InvalidDocument, which says what was found and what is accepted."""
    if len(content) > MAX_FILE_BYTES:
        raise InvalidDocument(f"{len(content) / 1e6:.1f} MB; at most {MAX_FILE_BYTES / 1e6:.0f} MB are read")
    try:
        values = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"not JSON: {error}") from error
    found = (
        (values.get("format"), values.get("version")) if isinstance(values, dict) else ("something else", "")
    )
    if found not in ((FORMAT, FORMAT_VERSION), (RECORDINGS_FORMAT, FORMAT_VERSION)):
        given = f"{found[0] or 'a file that names no format,'} version {found[1]}"
        raise InvalidDocument(
            f"this is {given[:MAX_WORDS]}; expected {FORMAT} version {FORMAT_VERSION}, as python -m kernels.measure --out writes"
        )
    return Document(
        command=_words("command", values.get("command", "")),
        measurements=_entries(values, "measurements", _measurement),
        ceilings=_entries(values, "ceilings", _ceiling),
        counters=_entries(values, "counters", _counter_run),
        left_out=_entries(values, "left_out", lambda words: _words("left_out", words)),
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _entries(values: dict, name: str, read: object) -> tuple:
    entries = values.get(name, [])
    if not isinstance(entries, list):
        raise InvalidDocument(f"{name} is {type(entries).__name__}; expected a list")
    found = []
    for index, entry in enumerate(entries):
        try:
            found.append(read(entry))
        except KeyError as error:
            raise InvalidDocument(f"{name}[{index}] has no {error}") from error
        except (InvalidProblem, InvalidDocument) as error:
            raise InvalidDocument(f"{name}[{index}]: {error}") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidDocument(f"{name}[{index}] is damaged: {str(error)[:MAX_WORDS]}") from error
    return tuple(found)


def _measurement(values: dict) -> Measurement:
    measurement = Measurement.from_dict(values)
    _check_origin(measurement)
    for result in measurement.results:
        _check_result(result)
    if measurement.gpu is not None:
        _check_plain(measurement.gpu)
    return measurement


def _ceiling(values: dict) -> Ceiling:
    ceiling = Ceiling.from_dict(values)
    _check_origin(ceiling)
    _check_timing(ceiling.timing)
    _number("work", ceiling.work)
    return ceiling


def _counter_run(values: dict) -> CounterRun:
    run = CounterRun.from_dict(values)
    _check_origin(run)
    for kernel in run.kernels:
        _check_plain(kernel)
        for name, value in kernel.metrics.items():
            _number(_words("metric", name), value)
    for stage in run.counted:
        _check_plain(stage)
    return run


def _check_origin(entry: Measurement | Ceiling | CounterRun) -> None:
    _check_plain(entry.device)
    _words("recorded_at", entry.recorded_at)
    try:
        datetime.fromisoformat(entry.recorded_at)
    except ValueError:
        raise InvalidDocument(
            f"recorded_at={entry.recorded_at[:40]!r} is not accepted: expected a date and time in ISO 8601"
        ) from None


def _check_result(result: PeerResult) -> None:
    _check_plain(result)
    if result.direction not in DIRECTIONS:
        raise InvalidDocument(
            f"direction={result.direction!r} is not accepted: expected one of {', '.join(DIRECTIONS)}"
        )
    if result.timing is None and not result.refused:
        raise InvalidDocument(f"{result.peer} has neither a timing nor a reason why not")
    if result.timing is not None:
        _check_timing(result.timing)
        _number("peak_extra_bytes", result.peak_extra_bytes)


def _check_timing(timing: Timing) -> None:
    if not isinstance(timing, Timing):
        raise InvalidDocument("timing is missing")
    for name in ("low_ms", "median_ms", "high_ms"):
        _number(name, getattr(timing, name))
    if not 0 < timing.low_ms <= timing.median_ms <= timing.high_ms:
        given = f"{timing.low_ms:g}, {timing.median_ms:g}, {timing.high_ms:g}"
        raise InvalidDocument(
            f"timing {given} ms is not accepted: expected 0 < 10th percentile <= median <= 90th percentile"
        )
    _number("samples", timing.samples)


def _check_plain(entry: object) -> None:
    """Every text of a dataclass is short text, every number a finite number from 0."""
    for field in fields(entry):
        value = getattr(entry, field.name)
        if value is None or isinstance(value, (bool, dict, Timing)):
            continue
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if field.type.startswith(("str", "tuple[str")):
                _words(field.name, part)
            else:
                _number(field.name, part)


def _words(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > 20 * MAX_WORDS:
        raise InvalidDocument(
            f"{name} is {type(value).__name__}; expected a text of at most {20 * MAX_WORDS} characters"
        )
    return value


def _number(name: str, value: object) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 <= value < 1e30
    ):
        raise InvalidDocument(f"{name}={str(value)[:40]!r} is not accepted: expected a number from 0")
