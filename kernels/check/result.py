"""The result of a check, as plain values and NumPy arrays. This file imports neither torch nor triton."""

from __future__ import annotations

import io
import math
from dataclasses import asdict, dataclass

import numpy as np

from kernels.check.cases import KERNELS, UPLOADED, USER, CheckCase
from kernels.device.backend import DeviceInfo
from kernels.file_format import Json

FORMAT = "flash-attention-check"
FORMAT_VERSION = 1

ULP_EDGES = (0.5, 1, 2, 4, 8, 16, 64, 256, 1024)
"""Upper edges of the bins of the ulp histogram; the last bin has none. Up to 0.5 is correctly rounded."""

FINITE, NOT_FINITE_AS_EXACT, MISSING, UNEXPECTED = 0, 1, 2, 3
"""Codes of the map of NaN and infinity. FINITE: finite, as in float64. NOT_FINITE_AS_EXACT: the same NaN or
infinity as in float64. MISSING: finite, but not in float64. UNEXPECTED: NaN or infinity, unlike float64."""


@dataclass(frozen=True)
class TensorCheck:
    """The error of one tensor against float64, and that of a low-precision reference.

    The rule of FlashAttention's tests is max_error <= tolerance; kernels.oracle.rule gives the tolerance.
    """

    name: str
    max_error: float
    mean_error: float
    naive_max_error: float
    naive_mean_error: float
    tolerance: float
    worst: tuple[int, ...]
    """Index of the largest error: (batch, head, row, column); lse has no column."""
    worst_value: float
    exact_value: float
    """The float64 value at that index."""
    wrong_nonfinite: int
    """Elements that are NaN or infinite although float64 differs, or finite although float64 is not."""
    nonfinite: int
    """Elements that are NaN or infinite, whatever float64 gives."""
    elements: int
    ulps: tuple[int, ...] = ()
    """Elements per bin of ULP_EDGES, by their error in units in the last place. Empty for lse."""
    naive_ulps: tuple[int, ...] = ()
    reference: str = ""
    """The type of the low-precision reference, such as "float16"."""

    @property
    def passes(self) -> bool:
        """Whether the largest error is allowed; NaN is not."""
        return self.max_error <= self.tolerance

    @property
    def ratio(self) -> float:
        """Largest error over that of the low-precision reference."""
        if self.naive_max_error == 0:
            return 1.0 if self.max_error == 0 else math.inf
        return self.max_error / self.naive_max_error if math.isfinite(self.naive_max_error) else 0.0


@dataclass(frozen=True)
class Repeats:
    """Comparison of several runs on the same inputs, bit by bit."""

    runs: int
    differing: dict[str, int]
    """By tensor name: elements that were not the same in every run."""
    largest: float
    """Largest difference between any run and the first."""

    @property
    def equal(self) -> bool:
        """Whether all runs were bitwise equal."""
        return not any(self.differing.values())


@dataclass(frozen=True)
class KeylessRows:
    """Rows that see no key. Their output must be 0 and their lse -inf."""

    count: int
    wrong_output: int
    wrong_lse: int

    @property
    def right(self) -> bool:
        """Whether all these rows are as they must be."""
        return self.wrong_output == 0 and self.wrong_lse == 0


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """The largest error in each cell, divided by the allowed error: above 1 the cell fails.

    A cell covers `row_step` rows and `column_step` columns. `kind` is "O" or a gradient's name (rows x
    head_dim), or "weights" (query rows x keys): how much of its attention each row gives to a group of key
    tiles.
    """

    kind: str
    values: np.ndarray
    """float32 (heads, row cells, column cells)"""
    heads: np.ndarray
    """int32 (heads,): index batch * heads + head of each map; the heads with the largest errors."""
    row_step: int
    column_step: int
    rows: int
    columns: int
    codes: np.ndarray | None = None
    """uint8, shaped as values: FINITE, NOT_FINITE_AS_EXACT, MISSING or UNEXPECTED. None if all are FINITE."""
    first_step: np.ndarray | None = None
    """int32 (heads, query tiles), only for "weights": the step of FlashAttention-2's trace at which the
    program of each query tile starts."""


@dataclass(frozen=True, eq=False)
class CheckResult:
    """The result of the check of one case."""

    case: CheckCase
    label: str
    device: DeviceInfo
    checked_at: str
    seconds: float
    tensors: tuple[TensorCheck, ...] = ()
    repeats: Repeats | None = None
    keyless: KeylessRows | None = None
    refused: str = ""
    """Why the kernel did not run, so that there is no verdict; "" if it ran."""
    broken: str = ""
    """The error that the kernel raised, or what it returned instead of an output. "" if neither."""
    notes: tuple[str, ...] = ()
    interpreted: bool = False
    """Whether Triton's interpreter ran it."""
    maps: tuple[ErrorMap, ...] = ()

    @property
    def verdict(self) -> str:
        """ "pass", "fail", or "invalid" if nothing could be checked."""
        if self.refused:
            return "invalid"
        keyless_right = self.keyless is None or self.keyless.right
        passes = not self.broken and keyless_right and all(tensor.passes for tensor in self.tensors)
        return "pass" if passes else "fail"

    @property
    def reason(self) -> str:
        """The verdict in one sentence."""
        if self.refused or self.broken:
            return self.refused or self.broken
        failing = [tensor for tensor in self.tensors if not tensor.passes]
        if failing:
            worst = max(
                failing,
                key=lambda tensor: tensor.max_error / tensor.tolerance if tensor.tolerance else math.inf,
            )
            if worst.wrong_nonfinite:
                elements = f"{worst.wrong_nonfinite:,} elements"
                return (
                    f"{worst.name} has {elements} with NaN or infinity where float64 has none, or the reverse"
                )
            return f"{worst.name} is off by {worst.max_error:.1e}; {worst.tolerance:.1e} is allowed"
        if self.keyless is not None and not self.keyless.right:
            rows = max(self.keyless.wrong_output, self.keyless.wrong_lse)
            return f"{rows:,} rows without a key do not give 0 and lse -inf"
        return "every error is below what the rule allows"

    def tensor(self, name: str) -> TensorCheck | None:
        """The check of "O", "lse", "dQ", "dK" or "dV"; None if it was not checked."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)

    def map(self, kind: str) -> ErrorMap | None:
        """The map of that kind; None if there is none."""
        return next((error_map for error_map in self.maps if error_map.kind == kind), None)

    def as_dict(self) -> dict:
        """Everything but the maps, as plain values. NaN and infinities are left as floats: see `strict`."""
        values = {
            name: getattr(self, name)
            for name in ("label", "checked_at", "seconds", "refused", "broken", "interpreted")
        }
        return values | {
            "verdict": self.verdict,
            "reason": self.reason,
            "case": self.case.as_dict(),
            "device": self.device.as_dict(),
            "notes": list(self.notes),
            "tensors": [
                asdict(tensor) | {"passes": tensor.passes, "ratio": tensor.ratio} for tensor in self.tensors
            ],
            "repeats": asdict(self.repeats) if self.repeats else None,
            "keyless": asdict(self.keyless) if self.keyless else None,
        }

    @classmethod
    def from_dict(cls, values: dict, maps: tuple[ErrorMap, ...] = ()) -> CheckResult:
        """The reverse of `as_dict`."""
        known = TensorCheck.__dataclass_fields__
        tensors = [
            {name: value for name, value in tensor.items() if name in known} for tensor in values["tensors"]
        ]
        tuples = ("worst", "ulps", "naive_ulps")
        return cls(
            case=CheckCase.from_dict(values["case"]),
            device=DeviceInfo(**values["device"]),
            notes=tuple(values["notes"]),
            tensors=tuple(
                TensorCheck(**tensor | {name: tuple(tensor[name]) for name in tuples}) for tensor in tensors
            ),
            repeats=Repeats(**values["repeats"]) if values["repeats"] else None,
            keyless=KeylessRows(**values["keyless"]) if values["keyless"] else None,
            maps=maps,
            **{
                name: values[name]
                for name in ("label", "checked_at", "seconds", "refused", "broken", "interpreted")
            },
        )


@dataclass(frozen=True)
class SensitivityPoint:
    """The error of O after one variation of the case: other tiles, or a factor on the query."""

    label: str
    max_error: float
    tolerance: float
    naive_max_error: float
    wrong_nonfinite: int
    naive_wrong_nonfinite: int
    largest_score: float = 0.0
    """Largest |scaled score| in float64; 0 for a variation of the tiles."""
    difference: float = 0.0
    """Largest difference from the output with the problem's own tiles; 0 for a factor on the query."""
    refused: str = ""

    @property
    def passes(self) -> bool:
        """Whether the kernel ran and its largest error is allowed."""
        return not self.refused and self.max_error <= self.tolerance


@dataclass(frozen=True)
class Sensitivity:
    """How the error moves with the tiles and with the scale of the input."""

    blocks: tuple[SensitivityPoint, ...]
    scales: tuple[SensitivityPoint, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict:
        """Field names to plain values, fit for JSON but for NaN and infinities: see `strict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> Sensitivity:
        """The reverse of `as_dict`."""
        points = {
            name: tuple(SensitivityPoint(**point) for point in values[name]) for name in ("blocks", "scales")
        }
        return cls(**points, notes=tuple(values["notes"]))


def label_of(case: CheckCase, user_name: str = "") -> str:
    """What the pages call a case's kernel; `user_name` is the name of the user's own kernel."""
    if case.kernel == UPLOADED:
        return "result from the file"
    return user_name if case.kernel == USER and user_name else KERNELS[case.kernel].label


def strict(value: Json | tuple) -> Json:
    """The value with NaN and infinities as the strings "nan", "inf" and "-inf": JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    return [strict(item) for item in value] if isinstance(value, list | tuple) else value


def maps_to_bytes(maps: tuple[ErrorMap, ...]) -> bytes:
    """The maps as one .npz, for the pipe between worker and page."""
    arrays: dict[str, np.ndarray] = {}
    for index, error_map in enumerate(maps):
        shape = [error_map.row_step, error_map.column_step, error_map.rows, error_map.columns]
        parts = {
            "values": error_map.values,
            "heads": error_map.heads,
            "codes": error_map.codes,
            "first_step": error_map.first_step,
            "shape": np.array(shape),
        }
        arrays |= {
            f"{index}|{error_map.kind}|{name}": array for name, array in parts.items() if array is not None
        }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def maps_from_bytes(blob: bytes) -> tuple[ErrorMap, ...]:
    """The reverse of `maps_to_bytes`."""
    stored: dict[tuple[int, str], dict] = {}
    with np.load(io.BytesIO(blob), allow_pickle=False) as file:
        for key in file.files:
            index, kind, name = key.split("|")
            stored.setdefault((int(index), kind), {})[name] = file[key]
    maps = []
    for (_, kind), parts in sorted(stored.items()):
        row_step, column_step, rows, columns = (int(number) for number in parts.pop("shape"))
        maps.append(
            ErrorMap(kind, row_step=row_step, column_step=column_step, rows=rows, columns=columns, **parts)
        )
    return tuple(maps)
