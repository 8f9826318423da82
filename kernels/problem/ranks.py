"""Which positions of a sequence lie on which rank, and what a rank's queries see of another's keys."""

from dataclasses import dataclass

from kernels.problem.band import Band

LAYOUTS = ("zigzag", "contiguous", "striped")
"""zigzag: chunks r and 2P - 1 - r of 2P (torch: head-tail, Megatron: DualChunkSwap), so that all ranks have
the same work under a causal mask; contiguous: chunk r of P; striped: every P-th position from r on."""


@dataclass(frozen=True)
class Run:
    """`length` positions from `first` on, `step` apart."""

    first: int
    step: int
    length: int

    @property
    def positions(self) -> range:
        return range(self.first, self.first + self.step * self.length, self.step)


def divisor_of(world: int, layout: str) -> int:
    """What a length has to be a multiple of. Raises ValueError for an unknown layout."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r} is not accepted: expected one of {', '.join(LAYOUTS)}")
    return 2 * world if layout == "zigzag" else world


def runs_of(rank: int, world: int, length: int, layout: str) -> tuple[Run, ...]:
    """The positions of a rank, in the order in which its tensors hold them; `length` is that of all ranks.

    Raises ValueError, which names lengths that would do, if the length cannot be shared out.
    """
    divisor = divisor_of(world, layout)
    if length % divisor:
        below = length // divisor * divisor
        would_do = f"{below} or {below + divisor}" if below else f"{divisor}"
        raise ValueError(f"length {length} cannot be shared out over {world} ranks, {layout}: {would_do} can")
    if layout == "striped":
        return (Run(rank, world, length // world),)
    size = length // divisor
    chunks = (rank, 2 * world - 1 - rank) if layout == "zigzag" else (rank,)
    return tuple(Run(chunk * size, 1, size) for chunk in chunks)


@dataclass(frozen=True)
class Share:
    """Rows and keys of two parts that meet in one call of a kernel: places in the parts, and the band."""

    rows: slice
    keys: slice
    band: Band


Runs = tuple[Run, ...]
Bounds = tuple[int, int]
"""Key j of a query i is seen if the first <= j - i <= the second, all counted from the start of the parts."""
NOTHING: Bounds = (1, 0)


def shares_between(
    queries: Runs, keys: Runs, left: int | None, right: int | None, offset: int = 0
) -> tuple[Share, ...]:
    """What these queries see of these keys, in as few bands as the order of the positions allows.

    A query at position i + `offset` sees the keys from `left` before it to `right` after it; None leaves a
    side open. All runs have the same step. With zigzag parts under a causal mask one band is always enough.
    """
    each_q, each_k = [(run,) for run in queries], [(run,) for run in keys]
    for rows, columns in (([queries], [keys]), (each_q, [keys]), ([queries], each_k), (each_q, each_k)):
        pairs = [(q, k) for q in rows for k in columns]
        bounds = [_joint_bounds(q, k, left, right, offset) for q, k in pairs]
        if None not in bounds:
            break
    found = []
    for (q, k), bound in zip(pairs, bounds, strict=True):
        height, width = _length(q), _length(k)
        low, high = bound or NOTHING
        if low <= high:
            row, column = _length(queries[: queries.index(q[0])]), _length(keys[: keys.index(k[0])])
            at_left = None if low == 1 - height else width - height - low
            at_right = None if high == width - 1 else high - width + height
            band = Band.of(height, width, at_left, at_right)
            found.append(Share(slice(row, row + height), slice(column, column + width), band))
    return tuple(found)


def _length(runs: Runs) -> int:
    return sum(run.length for run in runs)


def _joint_bounds(
    queries: Runs, keys: Runs, left: int | None, right: int | None, offset: int
) -> Bounds | None:
    """One band that holds for all these runs together, NOTHING if they see none; None if none holds."""
    height, width = _length(queries), _length(keys)
    blocks, row = [], 0
    for q in queries:
        column = 0
        for k in keys:
            apart, step = q.first + offset - k.first, q.step
            low = -height - width if left is None else -((left - apart) // step)
            high = height + width if right is None else (apart + right) // step
            blocks.append((q.length, k.length, column - row, low, high))
            column += k.length
        row += q.length
    clipped = [_clipped(low, high, rows, columns) for rows, columns, _, low, high in blocks]
    seen = [(block, bounds) for block, bounds in zip(blocks, clipped, strict=True) if bounds != NOTHING]
    if not seen:
        return NOTHING
    lows = [low + at for (rows, _, at, *_), (low, _) in seen if low > 1 - rows]
    highs = [high + at for (_, columns, at, *_), (_, high) in seen if high < columns - 1]
    low, high = max(lows, default=1 - height), min(highs, default=width - 1)
    for (rows, columns, at, *_), wanted in zip(blocks, clipped, strict=True):
        if _clipped(low - at, high - at, rows, columns) != wanted:
            return None
    return _clipped(low, high, height, width)


def _clipped(low: int, high: int, rows: int, columns: int) -> Bounds:
    """The same band in a block, with bounds that reach no further than the block; NOTHING if it is empty."""
    low, high = max(low, 1 - rows), min(high, columns - 1)
    return (low, high) if low <= high else NOTHING
