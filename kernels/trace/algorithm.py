"""How an algorithm is described.

One `Algorithm` holds all facts that the rest of the project knows of it. Schedule, traffic, checks, player
and pages take this entry; only words of pages are looked up by its name (`viz/shared/looks.toml`). The
entries are in `kernels/algorithms/`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise

from kernels.device.gpus import REGISTERS
from kernels.problem import AttentionProblem
from kernels.problem.tiles import count_tiles
from kernels.trace.lanes import LaneKernel
from kernels.trace.needs import Needs, Particular, TilesOf

BLOCK_TABLE = "table"
"""The tensor with the page of each key tile of each sequence, if K and V lie in pages."""
TABLE_ENTRY_BYTES = 4
"""It is int32."""


@dataclass(frozen=True)
class Slot:
    """A place for a matrix in the picture of a tile step; what stands in it changes from phase to phase."""

    name: str
    row: int
    column: int
    """Where it lies: a product has its first factor on its left and its second above it."""
    rows: str
    columns: str
    """What its matrix is cut along: "q_tile", "kv_tile", "head_dim", or "one" for a column of one number."""
    transposed: bool = False
    """Whether it is drawn with rows and columns exchanged."""


@dataclass(frozen=True)
class RecordedMatrix:
    """A matrix that a program has in hand from a phase on."""

    name: str
    """Key in Trace.matrices, or the field of Trace if `is_field`."""
    slot: str
    phase: str
    label: str = ""
    """What it is called above the picture; its name if empty."""
    is_field: bool = False
    """Whether the trace holds it anyway, as a sum or as a result with one value per row."""
    scaled: bool = False
    """Whether it is shown times the scale of the problem, 1 / sqrt(head_dim)."""
    made_of: tuple[str, ...] = ()
    """Names of the matrices that its elements are made of, element by element."""


@dataclass(frozen=True)
class Product:
    """An element of `result` is a row or column of `first` times a row or column of `second`.

    `first_by` says what of `first` the row of the element picks, "row" or "column"; `second_by` what of
    `second` its column picks.
    """

    result: str
    first: str
    second: str
    first_by: str
    second_by: str
    phase: str
    """From which phase on the slot holds this product."""


@dataclass(frozen=True)
class TileFigure:
    """The picture of a tile step of one kernel."""

    slots: tuple[Slot, ...]
    matrices: tuple[RecordedMatrix, ...]
    products: tuple[Product, ...] = ()

    @property
    def recorded(self) -> tuple[RecordedMatrix, ...]:
        """The matrices that the kernel writes down for this picture, in the order of its buffers."""
        return tuple(matrix for matrix in self.matrices if not matrix.is_field)

    def slot(self, name: str) -> Slot:
        """The slot of that name. Raises StopIteration if there is none."""
        return next(slot for slot in self.slots if slot.name == name)


BytesOf = Callable[[AttentionProblem], int]
TileBytes = Callable[[AttentionProblem, int], dict[str, int]]


@dataclass(frozen=True)
class TimedAs:
    """The peer of `kernels.measure.peers` that is timed for an algorithm, and whose time that is."""

    peer: str
    timing_source: str = ""
    """What a card calls what was timed; "" if it is the algorithm itself."""
    why: str = ""
    """Why it is not the algorithm as it is played, in a sentence."""
    is_another: bool = False
    """Whether the peer is another algorithm, whose time is not shown as this one's."""


NOT_TIMED = TimedAs(
    "flash2",
    "FlashAttention-2",
    "No time is taken of it: it is here to be watched and checked.",
    is_another=True,
)
"""For an algorithm that no peer runs."""
FLASH_ATTENTION = TimedAs(
    "ours",
    "flash_attention, which picks its kernel",
    "Timed is `flash_attention`, which picks the kernel and the tiles for the GPU itself.",
)
"""For the kernels of the backward pass: no peer runs one of them by its name."""


@dataclass(frozen=True)
class Phase:
    """A part of a tile step. The comment `# [name]` in the kernel's source starts its lines.

    `loads` and `stores` name tensors in HBM. `needs` and `makes` name data on the chip: what must lie there
    before the phase, and what it leaves there. A tensor that is loaded has the same name on the chip.
    """

    name: str
    loads: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    shows: str = ""
    """Is "share" if from this phase on it is known how much of its rows' attention the tile has."""
    only_masked: bool = False
    """Whether only tiles that the mask cuts have this phase."""
    rescales: bool = False
    """Whether the old sums are multiplied by the rescale factor in this phase."""
    sentence_key: str = ""
    """Name of the sentence that the player says of it, in sentences.toml; "" for what it loads or stores."""


@dataclass(frozen=True)
class ChipPart:
    """A block of data that a program keeps on the chip."""

    name: str
    bytes_of: BytesOf
    holds: tuple[str, ...]
    """Names of the data of the phases that lie in it."""
    memory: str = REGISTERS
    """SHARED or REGISTERS: where a Hopper kernel keeps it."""


@dataclass(frozen=True)
class RecordedSum:
    """An accumulator that a step records."""

    field: str
    """Of Trace, that it becomes: "acc", "acc_dk" or "acc_dv"."""
    tile: str
    """"q_tile" or "kv_tile": the tile whose rows it sums."""


@dataclass(frozen=True)
class SourcePart:
    """Marked lines of a function: all of them, or those of some phases."""

    module: str
    function: str
    phases: tuple[str, ...] = ()
    """Names of the phases; () for all that are marked there."""


@dataclass(frozen=True)
class SourceRef:
    """Where the source of a kernel is: the module, its function, and the function of its inner loop.

    Lines below a comment `# [name]` belong to the phase of that name. If they lie in several functions and
    files, `parts` names these in the order in which a tile meets them.
    """

    module: str
    function: str
    inner: str = ""
    steps: tuple[tuple[str, str], ...] = ()
    """(module, function) of primitives whose phases are shown below the line that calls them."""
    parts: tuple[SourcePart, ...] = ()


@dataclass(frozen=True)
class SourceLine:
    """One line of a kernel, of its inner function, or of a primitive that it calls."""

    number: int
    text: str
    phase: str
    file: str


@dataclass(frozen=True)
class SourceText:
    """The source of a kernel that is not in the project: its lines, each with its phase or ""."""

    file: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True)
class Kernel:
    """One kernel: its phases, what it keeps on the chip, what a step records, and how it is drawn."""

    name: str
    """As in Trace.kernels."""
    source: SourceRef | SourceText
    """What `source_for` gives of problems with which no other function runs."""
    step: tuple[Phase, ...]
    """Phases of one round of the inner loop; of the whole program for a kernel without a loop."""
    before: tuple[Phase, ...] = ()
    """Phases at the start of a turn of the outer loop."""
    after: tuple[Phase, ...] = ()
    """Phases at the end of a turn of the outer loop."""
    parts: tuple[ChipPart, ...] = ()
    requested_bytes: BytesOf | None = None
    """Bytes that all programs request, by formula; the docstring of the formula names its source."""
    products: int = 0
    """Matrix products per visited tile, 2 m n k FLOPs each."""
    row_flops: int = 0
    """Further FLOPs per row and column of head_dim."""
    row_fields: tuple[str, ...] = ()
    """Fields of Trace with one value per row that a step records, in the order of its columns."""
    sums: tuple[RecordedSum, ...] = ()
    stays: str = "q_tile"
    """The tile that stays on the chip during a turn of the outer loop: "q_tile" or "kv_tile"."""
    longest_first: bool = False
    """Whether programs are launched in the order of `tiles.launch_order`; else as they are numbered."""
    splits_keys: bool = False
    """Whether each program takes a part of the keys of its rows."""
    combines_parts: bool = False
    """Whether a step combines a whole part of the keys, rather than a tile."""
    each: str = "for each key tile"
    """What a round of the inner loop is about, in words."""
    series: tuple[str, ...] = ()
    """Curves that the player draws beside the grid, by their names in run/series.js."""
    bars: str = ""
    """What the height of a row of the sum shows: "l" or "share"; "weight" for a merge, "" for none."""
    figure: TileFigure | None = None
    """How a step of small tiles is shown number by number; None if it is not."""
    cells: str = "share"
    """How a finished tile is drawn: "share" of the row's attention, "plain" (computed), "" (not at all)."""
    wide_source: SourceRef | None = None
    """The source for head_dim over 128, if other functions run then."""

    def source_for(self, problem: AttentionProblem) -> SourceRef | SourceText:
        return self.wide_source if self.wide_source and problem.head_dim > 128 else self.source

    def chip_bytes(self, problem: AttentionProblem, memory: str | None = None) -> int:
        """Bytes that one program keeps on the chip; in one memory alone if it is named."""
        return sum(part.bytes_of(problem) for part in self.parts if memory in (None, part.memory))

    @property
    def phases(self) -> tuple[Phase, ...]:
        """All phases in the order in which they run."""
        return (*self.before, *self.step, *self.after)

    @property
    def requests(self) -> tuple[tuple[str, str], ...]:
        """(tensor, "read" or "write") of all that the kernel moves: the columns of the recorded bytes.

        A block table is the last: with one or without, the other columns are the same.
        """
        reads = [(name, "read") for phase in self.phases for name in phase.loads]
        writes = [(name, "write") for phase in self.phases for name in phase.stores]
        return tuple(sorted(dict.fromkeys(reads + writes), key=lambda request: request[0] == BLOCK_TABLE))

    def column(self, tensor: str, direction: str) -> int:
        """Column of the recorded bytes of a tensor."""
        return self.requests.index((tensor, direction))


@dataclass(frozen=True)
class Algorithm(Particular):
    """One algorithm: its kernels in launch order, and the facts that pages show of it."""

    name: str
    """In URLs, files and commands."""
    label: str
    idea: str
    """In one line, what it does with the tiles."""
    direction: str
    """"forward" or "backward"."""
    kernels: tuple[Kernel, ...]
    runner: str
    """Module with `run_traced(problem)`, and with `forward` and `gradients` if it is `checked`."""
    rank: int = 100
    """Position in the lists of pages; equal ranks are sorted by name."""
    runs_in: str = "triton"
    """"triton" for kernels of ours, "torch" if torch runs it tile by tile."""
    top: tuple[str, ...] = ("K", "V")
    """Strips above the grid: tensors cut along the keys."""
    left: tuple[str, ...] = ("Q", "O")
    """Strips left of the grid: tensors cut along the queries, from the grid outwards."""
    grid: tuple[str, ...] = ()
    """Tensors in HBM with one tile per tile of the grid, such as the scores of standard attention."""
    each_kernel_anew: bool = False
    """Whether each kernel goes over the grid from the start."""
    pool_pages: Callable[[AttentionProblem], int] | None = None
    """Pages of the pools that K and V lie in, found through a block table; None if K and V lie whole."""
    packs_heads: bool = False
    """Whether the query heads that share a key head are packed into one query tile."""
    skips_tiles: bool = True
    """Whether tiles that the mask hides are left out."""
    persistent: bool = False
    """Whether a program of the launch may take several query tiles, one after the other. The "programs" of
    its traces are then query tiles."""
    step_cost: float = 1.0
    """Time of a step in the interpreter, over that of FlashAttention-2.

    Measured for 512 queries and keys, head_dim 64 and tiles of 64 x 64.
    """
    timed_as: TimedAs = NOT_TIMED
    checked: str = ""
    """What the Check page calls it; "" if it is not offered there."""
    has_gradients: bool = False
    """Whether its check covers gradients."""
    recorded: tuple[str, ...] = ()
    """Names of the presets of which a run is recorded, with the algorithm's own tiles if it has such."""
    samples: str = ""
    """What of a long run can be traced alone: "tiles" (query tiles of some heads), "heads" (some key heads
    with all that belongs to them), or "" if only the whole run can. With "tiles" its runner has `run_sampled`
    and the entry `tile_bytes`."""
    lanes: LaneKernel | None = None
    """Its kernel that sets marks, if there is one."""
    observed: bool = False
    """Whether it is a user's kernel, of which only loads and stores are seen."""
    tile_bytes: TileBytes | None = None
    """Requested bytes by tensor of one query tile of one head, by formula."""
    needs: Needs | None = None
    """What it needs of the machine and the problem; None if it runs everywhere and takes every problem."""
    own_tiles: TilesOf | None = None
    """(block_m, block_n) that it runs a problem with; None if they are those of the problem."""
    takes_patterns: bool = False
    """Whether it takes masks and scores beyond a band."""

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name. Raises KeyError if there is none."""
        return {kernel.name: kernel for kernel in self.kernels}[name]

    def chip_bytes(self, problem: AttentionProblem, memory: str | None = None) -> int:
        """On-chip bytes per program of the kernel that needs the most; in one memory alone if named."""
        return max(kernel.chip_bytes(problem, memory) for kernel in self.kernels)

    def rows(self, problem: AttentionProblem) -> int:
        """Rows that the query tiles cut: the queries, or those of all heads that share a key head."""
        return problem.packed_rows if self.packs_heads else problem.q_len

    @property
    def launches(self) -> list[int]:
        """The number of the launch of each kernel; loops of one function are one launch."""
        sources = [kernel.source for kernel in self.kernels]
        is_new = (isinstance(own, SourceText) or own != before for before, own in pairwise(sources))
        return [0, *accumulate(map(int, is_new))]

    @property
    def traces_a_row(self) -> bool:
        """Whether its kernels write down the numbers of a picked row, whatever the size of the tiles."""
        return self.runs_in != "torch" and any(kernel.figure for kernel in self.kernels)

    @property
    def has_formula(self) -> bool:
        """Whether all its kernels have a formula of their requested bytes."""
        return all(kernel.requested_bytes is not None for kernel in self.kernels)

    def requested_bytes(self, problem: AttentionProblem) -> int:
        """Bytes that all its kernels request, by formula. Raises TypeError unless it `has_formula`."""
        return sum(kernel.requested_bytes(problem) for kernel in self.kernels)  # type: ignore[misc]  # it has

    def steps(self, problem: AttentionProblem) -> int:
        """Estimated tile steps of a run: the key tiles that all query tiles visit."""
        if self.packs_heads:
            return problem.key_heads * -(-problem.packed_rows // problem.block_m) * problem.kv_tiles
        counts = count_tiles(problem)
        return counts.visited if self.skips_tiles else counts.all * len(self.kernels)
