"""Where the numbers on the Measure page come from: the shipped recording, this machine, or a user's file."""

import functools
from dataclasses import dataclass, replace

from kernels.device.backend import DeviceInfo
from kernels.file_format import UnreadableFile
from kernels.measure.document import Document, read_document
from kernels.measure.measurement import Measurement
from kernels.measure.series import PeerCurve, SweepView, peer_curves
from kernels.recordings import FILES, recorded_document
from viz.player.talk.chart import fullest_last
from viz.shared.figures.sweep import peer_label
from viz.shared.formats import plain
from viz.shared.provenance import library_versions

RECORDED, HERE, FILE = "recorded", "measured", "file"
"""Names of sources on the page and in its URL."""


@dataclass(frozen=True)
class Source:
    name: str
    document: Document
    dtype: str | None = None
    """The type that everything was measured in, if not the one chosen: a CPU measures in float32."""

    @property
    def device(self) -> DeviceInfo | None:
        """The first device named; None if nothing was measured."""
        return next(iter(self.document.devices), None)

    @property
    def words(self) -> str:
        """ "NVIDIA H200, 2026-11-21, torch 2.11.0, Triton 3.6.0, driver 580, SDPA cuDNN 9.19.0"."""
        if self.device is None:
            return "nothing yet"
        devices = " and ".join(dict.fromkeys(device.name for device in self.document.devices))
        dates = sorted({entry.recorded_at[:10] for entry in self.document.entries})
        days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
        versions = f"torch {self.device.torch}"  # on a CPU, no kernel of Triton is timed
        if self.device.backend == "cuda":
            versions = f"{library_versions(self.device)}, driver {self.device.driver}"
        results = [result for entry in self.document.measurements for result in entry.results]
        libraries = {f"{peer_label(result.peer)} {result.version}" for result in results if result.version}
        return plain(", ".join([devices, days, versions, *sorted(libraries)]))

    def curves(self, view: SweepView) -> list[PeerCurve]:
        """The curves of the device with most points; of points measured twice here the later counts."""
        measurements = self.document.measurements
        if self.name != HERE:
            measurements = tuple(fullest_last(measurements))
        by_device: dict[str, list[Measurement]] = {device.name: [] for device in self.document.devices}
        for measurement in measurements:
            by_device[measurement.device.name].append(measurement)
        view = replace(view, dtype=self.dtype or view.dtype)
        found = [peer_curves(self.name, each, view) for each in by_device.values()]
        return max(found, key=lambda curves: sum(len(curve.points) for curve in curves), default=[])


def recorded_source() -> Source:
    """The shipped recording: sweeps, ceilings and counters as one."""
    return Source(RECORDED, merged([recorded_document(part) for part in FILES]))


@functools.lru_cache(maxsize=8)
def file_source(content: bytes) -> Source:
    """A file of the user's. Raises UnreadableFile, also if the file holds no measurement."""
    document = read_document(content)
    if not document.entries:
        raise UnreadableFile("it holds no measurement; python -m kernels.measure --out my.json writes some")
    return Source(FILE, document)


def merged(documents: list[Document]) -> Document:
    """One document with everything, each command once."""
    commands = (command for document in documents for command in document.command.split(" && "))
    parts = {
        name: tuple(entry for document in documents for entry in getattr(document, name))
        for name in ("measurements", "ceilings", "counters", "left_out")
    }
    return Document(" && ".join(dict.fromkeys(filter(None, commands))), **parts)


def to_document(sources: list[Source], shown: list[PeerCurve]) -> Document:
    """What is on the charts, with ceilings and counters, as a file that the page reads again."""
    documents = []
    for source in sources:
        problems = {point.problem for curve in shown if curve.source == source.name for point in curve.points}
        if problems:
            kept = tuple(entry for entry in source.document.measurements if entry.problem in problems)
            documents.append(replace(source.document, measurements=kept, left_out=()))
    return merged(documents)
