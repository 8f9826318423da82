"""A static site with runs of your own in front: `python -m examples.my_site OUT`, then open OUT/index.html.

The kernels run here, on a GPU or in Triton's interpreter. Runs that Explore saved as “Trace (.npz)” need no
script: `python -m viz.site OUT --trace run.npz`.
"""

import sys
from pathlib import Path

from kernels import AttentionProblem, run_traced
from viz.site.pages import write_site

SMALL = AttentionProblem(q_len=48, kv_len=48, head_dim=16, block_m=16, block_n=16, inputs="text")
RUNS = [
    (SMALL.with_(mask="window", window_left=11), "flash2"),
    (SMALL.with_(mask="causal"), "flash1"),
]


def main(out: str) -> None:
    """Run each problem, and write the site."""
    write_site(Path(out), [run_traced(problem, algorithm) for problem, algorithm in RUNS])


if __name__ == "__main__":
    main(*sys.argv[1:] or ["site"])
