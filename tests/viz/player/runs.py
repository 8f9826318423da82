"""What the tests of the player's modules share."""

from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from viz.player.modules import FOLDER

ORIGIN = "http://player.test"
ENTRIES = ("component", "lanes_component", "live_component", "page", "talk_component", "talk_page")
FILES = {
    path.stem: path.relative_to(FOLDER).as_posix()
    for path in sorted(FOLDER.rglob("*.js"))
    if path.stem not in ENTRIES
}
"""Paths of the modules by their names, without the entries, which look for a page."""
GPU = GPUS["H200"]
WINDOW = AttentionProblem(
    q_heads=2, q_len=20, kv_len=40, head_dim=16, block_m=8, block_n=8, mask="window", window_left=3
)
"""Two heads; the first key tiles are seen by no query, and the last query tile has 4 rows."""
