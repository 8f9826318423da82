"""Files of measurements: `python -m kernels.measure`, `kernels.record` and the Measure page write them.

One JSON format holds measurements, ceilings and hardware counters; every entry names its device, versions and
date. The types of the entries say what a file may hold. Importing this file needs neither torch nor triton.
"""

import json
from dataclasses import asdict, dataclass

import msgspec

from kernels.device.backend import DeviceInfo
from kernels.file_format import UnreadableFile, format_mismatch
from kernels.measure.counters import CounterRun
from kernels.measure.measurement import Measurement
from kernels.measure.ranks import RanksTime
from kernels.measure.roofline import Ceiling

FORMAT = "flash-attention-measurements"
FORMAT_VERSION = 1
RECORDINGS_FORMAT = "flash-attention-recordings"
"""The index of a folder of recordings, which holds measurements in the same form."""
MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True)
class Document:
    """What was measured on one device or several, and the command that repeats it."""

    command: str = ""
    measurements: tuple[Measurement, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    counters: tuple[CounterRun, ...] = ()
    ranks: tuple[RanksTime, ...] = ()
    left_out: tuple[str, ...] = ()
    """What the command did not measure, because it ran out of time or failed."""

    @property
    def entries(self) -> tuple[Measurement | Ceiling | CounterRun | RanksTime, ...]:
        """Everything that has a device and a date."""
        return (*self.measurements, *self.ceilings, *self.counters, *self.ranks)

    @property
    def devices(self) -> tuple[DeviceInfo, ...]:
        return tuple(dict.fromkeys(entry.device for entry in self.entries))

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, "version": FORMAT_VERSION} | asdict(self)) + "\n"


def read_document(content: bytes | str) -> Document:
    """Read and check a file. Raises UnreadableFile, which says what is wrong and where."""
    if len(content) > MAX_FILE_BYTES:
        raise UnreadableFile(f"{len(content) / 1e6:.1f} MB; at most {MAX_FILE_BYTES / 1e6:.0f} MB are read")
    try:
        values = msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"not JSON: {error}") from error
    if mismatch := format_mismatch(values, (FORMAT, RECORDINGS_FORMAT), FORMAT_VERSION):
        raise UnreadableFile(f"this is {mismatch}, as python -m kernels.measure --out writes")
    try:
        return msgspec.json.decode(content, type=Document)
    except msgspec.ValidationError as error:
        raise UnreadableFile(str(error)) from error
