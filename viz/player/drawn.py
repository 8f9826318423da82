"""What is drawn of a run, before it is encoded for the script: steps, their tiles, phases, rows and times."""

import functools
from dataclasses import dataclass

import numpy as np

from kernels.algorithms import algorithm_of
from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.sample import evenly_spaced
from kernels.trace.schedule import Schedule, step_schedule
from viz.player.tiles import KIND_CODES, TileKind, key_ranges, rows_of_tiles, tile_kinds

MAX_STEPS = 4096
MAX_CELLS = 1 << 22
"""Most tiles of the drawn grid. Of a larger one, some query tiles alone have a row."""


@dataclass(frozen=True)
class Selection:
    """The drawn steps: `first` and `last` hold the index in the trace of the first and last step of each.

    `notes` say in words what was left out. `share` is the part of the traced queries of all heads that is
    drawn.
    """

    first: np.ndarray
    last: np.ndarray
    notes: tuple[str, ...]
    share: float

    def joined(self, values: np.ndarray, by: np.ufunc) -> np.ndarray:
        """(drawn steps, ...): values of the steps of the trace, those of each drawn step joined by `by`."""
        bounds = np.stack([self.first, self.last + 1], axis=1).ravel()
        padded = np.append(values, values[-1:], axis=0)  # the last bound lies one past the trace
        return by.reduceat(padded, bounds, axis=0)[::2]


def turns(trace: Trace, algorithm: Algorithm) -> np.ndarray:
    """int (steps,): the turn of each step: consecutive steps with the same tile staying on the chip."""
    keeps_keys = np.array([kernel.stays == "kv_tile" for kernel in algorithm.kernels])[trace.kernel]
    tile = np.where(keeps_keys, trace.kv_tile, trace.q_tile)
    head = np.where(keeps_keys, 0, trace.batch_head)  # heads that share a key head are one turn of a key tile
    key = np.stack([trace.kernel, trace.program, tile, head])
    return np.cumsum(np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0))) - 1


def select_steps(trace: Trace, algorithm: Algorithm, limit: int = MAX_STEPS) -> Selection:
    """All steps if they fit the limit, else evenly spaced heads, then query tiles, then groups of steps."""
    kept = np.arange(trace.steps)
    notes = []
    share = 1.0
    heads = np.unique(trace.batch_head)
    if len(kept) > limit and len(heads) > 1:
        chosen = heads[[*evenly_spaced(len(heads), max(1, limit * len(heads) // len(kept)))]]
        kept = kept[np.isin(trace.batch_head[kept], chosen)]
        share *= len(chosen) / len(heads)
        notes.append(f"{len(chosen)} of {len(heads)} heads are drawn")
    tiles = np.unique(trace.q_tile[kept])
    tiles = tiles[tiles >= 0]
    rows = max(1, MAX_CELLS // trace.problem.kv_tiles) if is_large(trace.problem) else len(tiles)
    wanted = min(limit * len(tiles) // len(kept) if len(kept) > limit else len(tiles), rows)
    if wanted < len(tiles) and len(tiles) > 1:
        chosen = tiles[[*evenly_spaced(len(tiles), max(1, wanted))]]
        kept = kept[np.isin(trace.q_tile[kept], chosen)]
        drawn, traced = (rows_of_tiles(trace.problem, algorithm, each).sum() for each in (chosen, tiles))
        share *= drawn / traced
        notes.append(f"{len(chosen)} of {len(tiles)} query tiles are drawn")
    size = -(-len(kept) // limit)
    index, turn = np.arange(len(kept)), turns(trace, algorithm)[kept]
    begins = np.maximum.accumulate(np.where(np.diff(turn, prepend=-1) != 0, index, 0))
    is_first = (index - begins) % size == 0
    if not is_first.all():
        notes.append(f"{size} consecutive key tiles are drawn as one step")
    is_last = np.append(is_first[1:], True)
    return Selection(kept[is_first], kept[is_last], tuple(notes), share)


def is_large(problem: AttentionProblem) -> bool:
    """Whether the whole grid of tiles is too large to be drawn."""
    return problem.q_tiles * problem.kv_tiles > MAX_CELLS


MAX_ROW_VALUES = 9000
"""Most pairs of row and step whose state is sent. With more, every second, fourth, ... row of a tile is."""
ROW_VALUES = {"m": "row_max", "l": "row_sum", "alpha": "alpha", "weight": "weight"}
"""Names of row values in the script, and the fields of Trace that they are."""
MATRICES_LIMIT_BYTES = 4 << 20
"""A run whose matrices are larger is drawn without them."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is drawn of a run. Arrays have one value per drawn step."""

    trace: Trace
    algorithm: Algorithm
    selection: Selection
    tile_numbers: list[int]
    """The query tiles that have a row in a sample's grid or in a large one; empty if all have one."""
    kinds: np.ndarray
    """uint8 (rows of the grid, key tiles): KIND_CODES."""
    turn: np.ndarray
    """Number of the turn of the outer loop."""
    head: np.ndarray
    q: np.ndarray
    """The row of the grid that a step is in; -1 for a step without a query tile."""
    kv: np.ndarray
    """The first key tile of a step, -1 for none ..."""
    kv_end: np.ndarray
    """... and one past its last."""
    phase_class: np.ndarray
    phase_classes: list[list[int]]
    """Numbers of the phases that a step goes through, among all phases of its kernel."""
    offsets: np.ndarray
    """Rows of a query tile whose state is sent."""
    schedule: Schedule
    matrices: dict[str, np.ndarray]
    """The recorded matrices by name, (drawn steps, rows, columns); empty if there are none."""

    @property
    def count(self) -> int:
        """Drawn steps."""
        return len(self.q)

    @property
    def q_tiles(self) -> int:
        """Rows of the grid."""
        return len(self.tile_numbers) or int(self.trace.q_tile.max()) + 1

    @property
    def start(self) -> np.ndarray:
        """When each step starts, from the start of the run, in ns."""
        return np.clip(self.schedule.start[self.selection.first], 0, 2**32 - 1)

    @property
    def moments(self) -> int:
        """The last moment of all programs at once: one per time at which a step starts, and the end."""
        return len(np.unique(self.start)) + 1

    def tells(self, step: int) -> list[str]:
        """The names of the sentences of each phase of a step."""
        kernel = self.algorithm.kernels[self.trace.kernel[self.selection.first[step]]]
        return [kernel.phases[number].sentence_key for number in self.phase_classes[self.phase_class[step]]]


@functools.lru_cache(maxsize=4)
def drawn_of(trace: Trace, gpu: Gpu) -> Drawn:
    """What is drawn of a run; `gpu` is that on which its programs are modelled."""
    algorithm = algorithm_of(trace)
    selection = select_steps(trace, algorithm)
    first, last = selection.first, selection.last
    numbers = _grid_tiles(trace, selection)
    kinds = tile_kinds(trace.problem, algorithm, numbers or None)
    q_tile = trace.q_tile[first]
    q = np.where(q_tile < 0, -1, np.searchsorted(numbers, q_tile)) if numbers else q_tile
    kv, kv_end = key_ranges(trace, algorithm)
    turn = turns(trace, algorithm)[first]
    pattern = trace.problem.pattern
    changes = pattern is not None and bool(pattern.softcap or pattern.slopes)  # then every tile is masked
    whole = KIND_CODES[TileKind.FULL] if not changes else -1
    phase_class, phase_classes = _phases(algorithm, trace.kernel[first], turn, q, kv[first], kinds == whole)
    return Drawn(
        trace=trace,
        algorithm=algorithm,
        selection=selection,
        tile_numbers=numbers,
        kinds=kinds,
        turn=turn,
        head=trace.batch_head[first],
        q=q,
        kv=kv[first],
        kv_end=kv_end[last],
        phase_class=phase_class,
        phase_classes=phase_classes,
        offsets=_offsets(trace, algorithm, len(first)),
        schedule=step_schedule(trace, algorithm, gpu),
        matrices=_matrices(trace, algorithm, selection),
    )


def _grid_tiles(trace: Trace, selection: Selection) -> list[int]:
    if trace.sample and trace.sample.q_tiles:
        return list(trace.sample.q_tiles)
    drawn = np.unique(trace.q_tile[selection.first])
    return drawn[drawn >= 0].tolist() if is_large(trace.problem) else []


def _phases(
    algorithm: Algorithm,
    kernel: np.ndarray,
    turn: np.ndarray,
    q: np.ndarray,
    kv: np.ndarray,
    needs_no_mask: np.ndarray,
) -> tuple[np.ndarray, list[list[int]]]:
    """Which phases each step goes through: a class per step, and the phases of each class."""
    begins = np.append(True, turn[1:] != turn[:-1])
    ends = np.append(begins[1:], True)
    has_tile = (q >= 0) & (kv >= 0)
    is_whole = has_tile & needs_no_mask[q, kv]
    cases, index = np.unique(
        np.stack([kernel, begins, has_tile, is_whole, ends]), axis=1, return_inverse=True
    )
    classes = []
    for own, first, tiled, whole, last in cases.T.tolist():
        its = algorithm.kernels[own]
        of_step = [tiled and not (phase.only_masked and whole) for phase in its.step]
        is_there = [first] * len(its.before) + of_step + [last] * len(its.after)
        classes.append(np.flatnonzero(is_there).tolist())
    return index.reshape(-1), classes


def _offsets(trace: Trace, algorithm: Algorithm, steps: int) -> np.ndarray:
    """Every row of a query tile, or evenly spaced ones if there are too many values."""
    known = sum(getattr(trace, field) is not None for field in ROW_VALUES.values())
    rows = min(trace.problem.block_m, algorithm.rows(trace.problem))
    stride = 1
    while steps * rows * max(known - 1, 1) // 2 // stride > MAX_ROW_VALUES and stride < trace.problem.block_m:
        stride *= 2
    return np.arange(0, rows, stride)


def _matrices(trace: Trace, algorithm: Algorithm, selection: Selection) -> dict[str, np.ndarray]:
    if trace.matrices is None or not np.array_equal(selection.first, selection.last):
        return {}
    figures = [kernel.figure for kernel in algorithm.kernels if kernel.figure]
    known: dict[str, np.ndarray | None] = {}
    for matrix in (matrix for figure in figures for matrix in figure.matrices):
        is_field = matrix.is_field and trace.matrix_row is None
        known[matrix.name] = getattr(trace, matrix.name) if is_field else trace.matrices.get(matrix.name)
    drawn = {name: values[selection.last] for name, values in known.items() if values is not None}
    is_small = sum(values.nbytes for values in drawn.values()) <= MATRICES_LIMIT_BYTES
    return drawn if is_small else {}
