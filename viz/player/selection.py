"""Which steps of a long trace are drawn."""

from dataclasses import dataclass

import numpy as np

from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from viz.player.tiles import rows_of_tiles
from viz.shared.figures.charts import evenly_spaced

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
        chosen = heads[evenly_spaced(len(heads), max(1, limit * len(heads) // len(kept)))]
        kept = kept[np.isin(trace.batch_head[kept], chosen)]
        share *= len(chosen) / len(heads)
        notes.append(f"{len(chosen)} of {len(heads)} heads are drawn")
    tiles = np.unique(trace.q_tile[kept])
    tiles = tiles[tiles >= 0]
    rows = max(1, MAX_CELLS // trace.problem.kv_tiles) if is_large(trace.problem) else len(tiles)
    wanted = min(limit * len(tiles) // len(kept) if len(kept) > limit else len(tiles), rows)
    if wanted < len(tiles) and len(tiles) > 1:
        chosen = tiles[evenly_spaced(len(tiles), max(1, wanted))]
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
