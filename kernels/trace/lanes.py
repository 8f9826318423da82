"""What the warps of a kernel did and when, by the cycle counters of the SMs, as NumPy arrays.

A lane is a warpgroup, or a warp that only loads. Under its constexpr LANES the kernel sets marks: when a
lane asked for a tile, had it, had a product. An activity is the time between two marks. Importing this file
imports neither torch nor triton.
"""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from kernels.device.backend import DeviceInfo
from kernels.file_format import HEADER, format_mismatch, plain_values, read_arrays, read_header, with_header
from kernels.problem import AttentionProblem
from kernels.trace.lane_order import begins_in_turn

FORMAT = "flash-attention-lanes"
FORMAT_VERSION = 1
PRODUCT, SOFTMAX, WAIT, OTHER = "product", "softmax", "wait", "other"
KINDS = (PRODUCT, SOFTMAX, WAIT, OTHER)
ONLY_KERNEL = {"backward": "backward_sweep"}
"""Older files name the algorithm instead. Its kernel with lanes has the same name, except for these."""
MAX_FILE_BYTES = 256 << 20
DAMAGE = (AttributeError, KeyError, TypeError, ValueError, msgspec.ValidationError)
"""What values of the wrong kind raise."""
BY_ACTIVITY = ("sm_activity_ns", "sm_lane_ns")
"""Arrays with one value per SM and activity."""


class InvalidLanes(ValueError):
    """A file that does not hold lanes of this version."""


@dataclass(frozen=True)
class Activity:
    """What a lane does between two marks of a turn."""

    name: str
    kind: str
    """One of KINDS. A product is under way on the tensor cores while the lane does something else."""
    phase: str
    """The phase of the algorithm's kernels that it belongs to."""
    begin: str
    end: str
    turns_back: int = 0
    """How many turns before this one its key tile was taken up."""
    or_next: str = ""
    """The mark of the next turn that ends it if `end` is not set."""


@dataclass(frozen=True)
class LaneRole:
    """What lanes of one kind do in a turn of their loop: a round of the inner loop, for most kernels."""

    label: str
    """Its name; "{}" stands for the number of the lane among all of a program."""
    marks: tuple[str, ...]
    activities: tuple[Activity, ...]
    kernel: str = ""
    """Name of the kernel whose phases they are; "" if it is every kernel of the algorithm that has them."""

    @property
    def computes(self) -> bool:
        """Whether its lanes compute, and do not only load."""
        return any(each.kind in (PRODUCT, SOFTMAX) for each in self.activities)

    def number(self, mark: str) -> int:
        """Place of a mark in a record."""
        return self.marks.index(mark)

    def named(self, activity: str) -> tuple[Activity, ...]:
        """Its activities of that name."""
        return tuple(each for each in self.activities if each.name == activity)


@dataclass(frozen=True, eq=False)
class Lanes:
    """The events of some programs, and the shares of every SM. Times count from the first program's start.

    `events` below is the number of entries, which are ordered by program, lane and begin.
    What a lane does itself (all but products) does not overlap.
    """

    problem: AttentionProblem
    kernel: str
    """Name of the LaneKernel."""
    device: DeviceInfo
    recorded_at: str
    """UTC date and time, ISO 8601."""
    lanes: tuple[str, ...]
    """Labels of the lanes of a program. If several kernels are launched, each has lanes of its own."""
    activities: tuple[tuple[str, str], ...]
    """(name, kind) of each activity."""
    plain_us: float
    """Time of the kernel without marks, measured beside it in the same launch shape. If several kernels are
    launched one after the other, it is from the start of the first to the end of the last."""
    marked_us: float
    """The same with marks."""
    clock_ghz: float
    """Cycles per ns, by both clocks of the programs."""
    event_program: np.ndarray
    """int32 (events,)"""
    event_lane: np.ndarray
    """int8 (events,)"""
    event_activity: np.ndarray
    """int8 (events,): index into `activities`."""
    event_batch_head: np.ndarray
    """int32 (events,): batch * q_heads + head."""
    event_q_tile: np.ndarray
    """int32 (events,); -1 if the event is about none."""
    event_kv_tile: np.ndarray
    """int32 (events,); -1 if the event is about none."""
    event_begin_ns: np.ndarray
    """float32 (events,)"""
    event_end_ns: np.ndarray
    """float32 (events,)"""
    program_sm: np.ndarray
    """int32 (programs,): of every program, also of those without events here. If several kernels are
    launched, the programs of each follow those of the kernel before it."""
    program_begin_ns: np.ndarray
    """float64 (programs,)"""
    program_end_ns: np.ndarray
    """float64 (programs,)"""
    sm: np.ndarray
    """int32 (sms,): numbers of the SMs that ran a program."""
    sm_busy_ns: np.ndarray
    """float64 (sms,): from the first start of a program of a launch to the last end, all launches together.
    A pause between two launches does not count."""
    sm_product_ns: np.ndarray
    """float64 (sms,): of it, with at least one product under way."""
    sm_softmax_ns: np.ndarray
    """float64 (sms,): softmax of all lanes together."""
    sm_hidden_ns: np.ndarray
    """float64 (sms,): of it, while a product was under way on the SM."""
    sm_activity_ns: np.ndarray
    """float64 (sms, activities): time of each activity, all lanes that have it together."""
    sm_lane_ns: np.ndarray
    """float64 (sms, activities): time of all lanes that have the activity together."""

    @property
    def overhead(self) -> float:
        """By what part of it the marks change the time of the kernel. Below 0 it is faster with them, which
        can be, because they also change the order of its instructions, and when its warps meet."""
        return self.marked_us / self.plain_us - 1

    @property
    def product_share(self) -> float:
        """Share of the SMs' time with a product under way."""
        return float(self.sm_product_ns.sum() / self.sm_busy_ns.sum())

    @property
    def hidden_share(self) -> float:
        """Share of softmax that ran while a product was under way."""
        return float(self.sm_hidden_ns.sum() / self.sm_softmax_ns.sum())

    @functools.cached_property
    def wait_shares(self) -> dict[str, float]:
        """Share of the time of the lanes that have it, for each activity in which they wait."""
        total = self.sm_lane_ns.sum(axis=0)
        return {
            name: float(self.sm_activity_ns[:, number].sum() / total[number])
            for number, (name, kind) in enumerate(self.activities)
            if kind == WAIT
        }

    def save(self, target: str | Path | BinaryIO) -> None:
        """Write one .npz file: the arrays, and a JSON header with everything else. No pickle."""
        np.savez_compressed(target, allow_pickle=False, **with_header(self, FORMAT, FORMAT_VERSION))

    def to_bytes(self) -> bytes:
        """The file that `save` writes."""
        buffer = io.BytesIO()
        self.save(buffer)
        return buffer.getvalue()

    @classmethod
    def subject_of(cls, source: Path) -> tuple[AttentionProblem, str]:
        """The problem and the kernel's name of a file, without its arrays. Raises InvalidLanes."""
        try:
            header = _header(read_arrays(source, MAX_FILE_BYTES, (HEADER,)))
            return AttentionProblem.from_dict(header["problem"]), header["kernel"]
        except InvalidLanes:
            raise
        except DAMAGE as error:
            raise InvalidLanes(f"not a file of lanes: {error}") from error

    @classmethod
    def load(cls, source: str | Path | BinaryIO | bytes) -> Lanes:
        """Read what `save` wrote. Raises InvalidLanes for anything else."""
        try:
            arrays = read_arrays(source, MAX_FILE_BYTES)
            header = _header(arrays)
            arrays = {name: array for name, array in arrays.items() if name != HEADER}
            values: dict[str, Any] = plain_values(cls, header) | arrays
            lanes = cls(**values)
            lanes._check_shapes()
            return lanes._in_turn()
        except InvalidLanes:
            raise
        except DAMAGE as error:
            raise InvalidLanes(f"not a file of lanes: {error}") from error

    def _in_turn(self) -> Lanes:
        """With what a lane does itself one after the other. The shares stay as they are in the file."""
        is_own = np.array([kind != PRODUCT for _, kind in self.activities], bool)[self.event_activity]
        program, lane, end = self.event_program, self.event_lane, self.event_end_ns
        begin = begins_in_turn(program, lane, is_own, self.event_begin_ns, end)
        order = np.lexsort((end, begin, lane, program))
        names = [field.name for field in fields(self) if field.name.startswith("event_")]
        ordered = {name: getattr(self, name)[order] for name in names if name != "event_begin_ns"}
        return replace(self, event_begin_ns=begin[order], **ordered)

    def _check_shapes(self) -> None:
        """Raises InvalidLanes for arrays that do not fit one another."""
        events, programs, sms = len(self.event_program), len(self.program_sm), len(self.sm)
        wanted = {"event": (events,), "program": (programs,), "sm": (sms,)}
        by_activity = (sms, len(self.activities))
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                shape = by_activity if name in BY_ACTIVITY else wanted[name.split("_")[0]]
                if value.shape != shape:
                    raise InvalidLanes(f"damaged lanes: {name} has shape {value.shape}, expected {shape}")
        for name, most in (("event_lane", len(self.lanes)), ("event_activity", len(self.activities))):
            numbers = getattr(self, name)
            if events and not (0 <= numbers.min() and numbers.max() < most):
                raise InvalidLanes(f"damaged lanes: {name} is not between 0 and {most - 1}")


def _header(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    header = read_header(arrays)
    if mismatch := format_mismatch(header, (FORMAT,), FORMAT_VERSION):
        raise InvalidLanes(f"this is {mismatch}")
    if "kernel" not in header:
        algorithm = header.pop("algorithm")
        header["kernel"] = ONLY_KERNEL.get(algorithm, algorithm)
    return header
