"""What is known of standard attention."""

from dataclasses import replace

from kernels.algorithms import chip
from kernels.algorithms import tile_figures as tile
from kernels.algorithms.standard.traffic import matrix_bytes, product_bytes
from kernels.device.gpus import SHARED
from kernels.trace.algorithm import Algorithm, Kernel, Phase, RecordedSum, SourceRef, TileFigure, TimedAs

MODULE = "kernels.algorithms.standard.run"
*SCORED, P, V, _, O = tile.forward_figure().matrices  # as in one kernel, which makes P otherwise
WEIGHTS = replace(P, label="softmax(S)", made_of=())
LOADED = (replace(SCORED[-1], phase="load S"),)

SCORES = Kernel(
    name="scores",
    source=SourceRef(MODULE, "_scores"),
    before=(Phase("load Q", loads=("Q",)),),
    step=(
        Phase("load K", loads=("K",)),
        Phase("QK^T", needs=("Q", "K"), makes=("S",)),
        Phase("mask", needs=("S",), makes=("S",), only_masked=True),
        Phase("store S", needs=("S",), stores=("S",)),
    ),
    parts=(chip.query_tile("Q"), chip.key_tile("K"), chip.scores("S", memory=SHARED)),
    requested_bytes=product_bytes,
    products=1,
    cells="plain",
    figure=TileFigure((tile.Q, tile.K, tile.SCORES), tuple(SCORED), (tile.SCORE_PRODUCT,)),
)

READ_SCORES = Kernel(
    name="softmax, read S",
    source=SourceRef(MODULE, "_softmax"),
    step=(
        Phase("load S", loads=("S",), needs=("S",)),  # beside the tiles of S before it
        Phase("row max", needs=("S", "m"), makes=("m",)),
    ),
    parts=(chip.whole_rows("rows of S", "S"), chip.row_state("m")),
    requested_bytes=matrix_bytes,
    row_fields=("row_max",),
    each="for each tile of S",
    series=("m",),
    cells="plain",
    figure=TileFigure((tile.SCORES,), LOADED),
)

WRITE_WEIGHTS = Kernel(
    name="softmax, write P",
    source=SourceRef(MODULE, "_softmax"),
    before=(Phase("row sum", needs=("S", "m"), makes=("l", "P")),),
    step=(
        Phase("exponentials", needs=("S", "m", "l"), makes=("P",), shows="share"),
        Phase("store P", needs=("P",), stores=("P",)),
    ),
    parts=(chip.whole_rows("rows of P", "P"), chip.row_state("m", "l")),
    requested_bytes=matrix_bytes,
    row_fields=("row_max", "row_sum", "row_share"),
    each="for each tile of P",
    bars="share",
    figure=TileFigure((tile.SCORES,), (replace(LOADED[0], phase="row sum"), WEIGHTS)),
)

PRODUCT = Kernel(
    name="product",
    source=SourceRef(MODULE, "_product"),
    step=(
        Phase("load P", loads=("P",), shows="share"),
        Phase("load V", loads=("V",)),
        Phase("PV", needs=("P", "V", "O"), makes=("O",)),
    ),
    after=(Phase("store O", needs=("O",), stores=("O",)),),
    parts=(chip.scores("P", memory=SHARED), chip.key_tile("V"), chip.query_sum("O")),
    requested_bytes=product_bytes,
    products=1,
    row_fields=("row_share",),
    sums=(RecordedSum("acc", "q_tile"),),
    bars="share",
    figure=TileFigure(
        (tile.SCORES, tile.V, tile.O),
        (replace(WEIGHTS, phase="load P", label="P"), V, O),
        (tile.WEIGHED_SUM,),
    ),
)

ENTRY = Algorithm(
    name="standard",
    label="Standard attention",
    idea="S and P go to HBM and back; run in torch, tile by tile",
    direction="forward",
    kernels=(SCORES, READ_SCORES, WRITE_WEIGHTS, PRODUCT),
    runner=f"{MODULE}:RUNNER",
    rank=8,
    runs_in="torch",
    grid=("S", "P"),
    skips_tiles=False,
    step_cost=0.01,
    checked="Standard attention in three kernels, forward",
    timed_as=TimedAs(
        "naive",
        "In torch's own operations",
        "Timed are torch's own operations on whole matrices: the code beside the player goes tile by tile to "
        "show the steps.",
    ),
    recorded=("text", "gpt2", "tiny", "ragged"),
    samples="heads",
    takes_patterns=True,
)
