"""What the tests of the player share: a made-up trace, and small runs."""

import numpy as np

from kernels.algorithms import run_traced
from kernels.device.backend import DeviceInfo
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles
from kernels.trace import LaunchInfo, Trace
from kernels.trace.sample import Sample
from viz.player.data import player_data
from viz.player.html_page import FOLDER

ORIGIN = "http://player.test"
ENTRIES = ("component", "page", "site", "talk_component", "talk_page")
FILES = {
    path.stem: path.relative_to(FOLDER).as_posix()
    for path in sorted(FOLDER.rglob("*.js"))
    if path.stem not in ENTRIES
}
"""Paths of the modules by their names, without the entries, which look for a page."""
GPU = GPUS["H200"]
PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")
WINDOW = AttentionProblem(
    q_heads=2, q_len=20, kv_len=40, head_dim=16, block_m=8, block_n=8, mask="window", window_left=3
)
"""Two heads; the first key tiles are seen by no query, and the last query tile has 4 rows."""
PARTS = AttentionProblem(
    q_len=1, kv_len=50, head_dim=16, q_heads=4, kv_heads=2, block_m=4, block_n=8, kv_splits=3
)
"""A decoding step whose 7 key tiles are split into parts of 3, 3 and 1."""
SAMPLED = AttentionProblem(
    q_len=77, kv_len=90, head_dim=16, block_m=16, block_n=16, q_heads=2, kv_heads=2, mask="causal"
)
SAMPLE = Sample((1,), (0, 2, 4))
TENSORS = ("Q", "K", "V", "O", "lse")


def hand_built(problem, clock=False):
    """A trace of the right shape with made-up row state: l counts the keys seen, and m never moves."""
    steps = []
    for head in range(problem.batch * problem.q_heads):
        for q_tile in range(problem.q_tiles):
            tiles = visited_tiles(problem, q_tile)
            steps += [(head, q_tile, kv) for kv in range(tiles.first, tiles.end)] or [(head, q_tile, -1)]
    head, q_tile, kv_tile = (np.array(column, np.int32) for column in zip(*steps, strict=True))
    count, rows = len(steps), problem.block_m
    program = head * problem.q_tiles + q_tile
    within = np.arange(count) - np.searchsorted(program, program)
    read = np.tile(np.array([0, 10, 20, 0, 0]), (count, 1))
    read[within == 0, 0] = 5
    written = np.zeros_like(read)
    written[np.append(program[1:] != program[:-1], True), 3] = 7
    return Trace(
        problem=problem,
        algorithm="flash2",
        device=DeviceInfo("cuda" if clock else "interpreter", "made up", "t", "t", "p"),
        kernels=("_attn_fwd",),
        launches=(LaunchInfo(4, 2),),
        recorded_at="2026-01-01T00:00:00",
        tensors=TENSORS,
        kernel=np.zeros(count, np.int8),
        program=program.astype(np.int32),
        batch_head=head,
        q_tile=q_tile,
        kv_tile=kv_tile,
        row_max=np.zeros((count, rows), np.float32),
        row_sum=np.repeat((within + 1.0)[:, None] * problem.block_n, rows, axis=1).astype(np.float32),
        alpha=np.where(within[:, None] == 0, 0, 1).repeat(rows, axis=1).astype(np.float32),
        tensor_bytes_read=read,
        tensor_bytes_written=written,
        output=np.zeros(problem.q_shape, np.float32),
        lse=np.zeros(problem.q_shape[:3], np.float32),
        sm=within.astype(np.int32) if clock else None,
        start_ns=within * 100 if clock else None,
        end_ns=within * 100 + 50 if clock else None,
    )


def shown(trace):
    """(trace, player data) of a trace."""
    return trace, player_data(trace, "here", GPU)


def traced(problem, algorithm="flash2", **options):
    """(trace, player data) of a run here."""
    return shown(run_traced(problem, algorithm, **options))
