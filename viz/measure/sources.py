"""Where the numbers on the Measure page are from: the shipped recording, this machine, a file of the user's."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace

from kernels.device.backend import DeviceInfo
from kernels.measure.document import Document, InvalidDocument, read_document
from kernels.measure.series import Curve, View, curves
from kernels.recordings import recorded_document

RECORDED, HERE, FILE = "recorded", "here", "file"


@dataclass(frozen=True)
class Source:
    """One origin of measurements."""

    name: str
    document: Document
    dtype: str | None = None
    """The type that everything was measured in whatever the controls say: a CPU measures in float32."""

    @property
    def device(self) -> DeviceInfo | None:
        """The first device named; None where nothing was measured."""
        return next(iter(self.document.devices), None)

    @property
    def words(self) -> str:
        """ "recorded on NVIDIA H200, 2026-11-21, torch 2.11.0, Triton 3.6.0, driver 580"."""
        if self.device is None:
            return f"{self.name}: nothing yet"
        verb = {RECORDED: "recorded on", HERE: "measured here on"}.get(
            self.name, "from your file, measured on"
        )
        return f"{verb} {plain(f'{self.device.name}, {self.date}, {version_words(self.device)}')}"

    @property
    def date(self) -> str:
        """Day of the measurements, or the first and the last."""
        dates = sorted(
            {
                entry.recorded_at[:10]
                for entry in (*self.document.measurements, *self.document.ceilings, *self.document.counters)
            }
        )
        return dates[0] if len(dates) <= 1 else f"{dates[0]} to {dates[-1]}"

    def curves(self, view: View) -> list[Curve]:
        """The curves of the view. Where a point was measured twice here, the later one counts; in a recording the run with more peers."""
        measured = self.document.measurements
        if self.name != HERE:
            measured = sorted(measured, key=lambda measurement: len(measurement.results))
        return curves(self.name, measured, replace(view, dtype=self.dtype or view.dtype))


def plain(text: str) -> str:
    """Text of a file as Markdown that shows just that text: no link, no picture, which a browser would go and fetch."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|$~:&-])", r"\\\1", text)


def version_words(device: DeviceInfo) -> str:
    """Versions that matter for the numbers: "torch 2.11.0, Triton 3.6.0, driver 580"."""
    parts = [f"torch {device.torch}"]
    if device.backend == "cuda":
        parts += [f"Triton {device.triton}", f"driver {device.driver}"]
    return ", ".join(parts)


def recorded_source() -> Source:
    """The shipped recording: sweeps, ceilings and counters as one."""
    parts = [recorded_document(part) for part in ("sweeps", "ceilings", "counters")]
    return Source(RECORDED, merged(parts))


def file_source(content: bytes) -> Source:
    """A file of the user's. Raises InvalidDocument, also for one without any measurement in it."""
    document = read_document(content)
    if not (document.measurements or document.ceilings or document.counters):
        raise InvalidDocument("it holds no measurement; python -m kernels.measure --out my.json writes some")
    return Source(FILE, document)


def merged(documents: list[Document]) -> Document:
    """One document with everything, each command once."""
    return Document(
        command=" && ".join(dict.fromkeys(document.command for document in documents if document.command)),
        measurements=tuple(entry for document in documents for entry in document.measurements),
        ceilings=tuple(entry for document in documents for entry in document.ceilings),
        counters=tuple(entry for document in documents for entry in document.counters),
        left_out=tuple(words for document in documents for words in document.left_out),
    )


def to_csv(sources: list[Source], shown: list[Curve]) -> str:
    """One line a result on the charts, with its device, versions, date and the command that repeats it."""
    described = {source.name: source for source in sources}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    problem_fields = ("batch", "q_heads", "kv_heads", "q_len", "kv_len", "head_dim", "dtype", "mask")
    device_fields = ("name", "torch", "triton", "python", "driver")
    writer.writerow(
        ["source", "peer", "direction", *problem_fields, "median_ms", "low_ms", "high_ms", "samples", "tflops", "peak_extra_bytes", "refused",
         "recorded_at", *(f"device_{name}" for name in device_fields), "command"]
    )  # fmt: skip
    for curve in shown:
        document = described[curve.source].document
        for point in curve.points:
            origin = next(
                entry
                for entry in document.measurements
                if entry.problem == point.problem and point.result in entry.results
            )
            timing = point.result.timing
            times = [timing.median_ms, timing.low_ms, timing.high_ms, timing.samples] if timing else [""] * 4
            rest = [
                point.value("tflops") or "",
                point.result.peak_extra_bytes if timing else "",
                point.result.refused or "",
                origin.recorded_at,
            ]
            fields = [getattr(point.problem, name) for name in problem_fields]
            device = [getattr(origin.device, name) for name in device_fields]
            writer.writerow(
                [curve.source, curve.peer, curve.direction, *fields, *times, *rest, *device, document.command]
            )
    return text.getvalue()


def to_document(sources: list[Source], shown: list[Curve]) -> Document:
    """What is on the charts, with the ceilings and counters of its sources, as a file that the page reads again."""
    names = {curve.source for curve in shown}
    documents = []
    for source in sources:
        if source.name in names:
            problems = {
                point.problem for curve in shown if curve.source == source.name for point in curve.points
            }
            kept = tuple(entry for entry in source.document.measurements if entry.problem in problems)
            documents.append(source.document.with_(measurements=kept, left_out=()))
    return merged(documents)
