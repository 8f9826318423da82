"""Our kernels against each peer in one figure: the geometric mean of its time over ours, by direction and head_dim, as a Markdown table.

python -m kernels.compare                 # of the shipped recording: the table in README.md
python -m kernels.compare my.json         # of a file that python -m kernels.measure --out or the Measure page wrote
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from kernels.measure.document import InvalidDocument, read_document
from kernels.measure.measurement import DIRECTIONS, Measurement
from kernels.measure.peers import PEERS
from kernels.recordings import FILES, FOLDER

OURS = "ours"
Ratios = dict[tuple[str, int, str], list[float]]
"""Times of a peer over ours, one for each problem, by (direction, head_dim, peer)."""


def time_ratios(measurements: Iterable[Measurement]) -> Ratios:
    """Over the problems on which both were timed in the same run; above 1 we are faster."""
    found: Ratios = defaultdict(list)
    for measurement in measurements:
        for result in measurement.results:
            ours = measurement.result(OURS, result.direction)
            if result.peer != OURS and result.timing and ours and ours.timing:
                key = (result.direction, measurement.problem.head_dim, result.peer)
                found[key].append(result.timing.median_ms / ours.timing.median_ms)
    return found


def markdown_table(ratios: Ratios) -> str:
    """A line for each direction and head_dim, a column for each peer: the geometric mean, and over how many problems."""
    peers = [peer for peer in PEERS if any(key[2] == peer for key in ratios)]
    lines = [f"| | {' | '.join(PEERS[peer].label for peer in peers)} |", "|:--|" + "--:|" * len(peers)]
    for direction in DIRECTIONS:
        for head_dim in sorted({key[1] for key in ratios if key[0] == direction}):
            cells = [ratios.get((direction, head_dim, peer), []) for peer in peers]
            words = [_words(statistics.geometric_mean(cell), len(cell)) if cell else "–" for cell in cells]
            lines.append(f"| {direction}, head_dim {head_dim} | {' | '.join(words)} |")
    return "\n".join(lines)


def _words(ratio: float, problems: int) -> str:
    """Bold where the peer is faster."""
    return f"{ratio:.2f} ({problems})" if round(ratio, 2) >= 1 else f"**{ratio:.2f}** ({problems})"


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 0, or 2 for a file that holds no measurements of ours beside a peer's."""
    parser = argparse.ArgumentParser(prog="python -m kernels.compare", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=FOLDER / FILES["sweeps"],
        help="measurements (default: the shipped recording)",
    )
    arguments = parser.parse_args(argv)
    try:
        ratios = time_ratios(read_document(arguments.file.read_bytes()).measurements)
    except (OSError, InvalidDocument) as error:
        print(f"error: {arguments.file}: {error}", file=sys.stderr)
        return 2
    if not ratios:
        print(
            f"error: {arguments.file} holds no problem on which ours and a peer were both timed: measure with --peers ours,…",
            file=sys.stderr,
        )
        return 2
    print(markdown_table(ratios))
    return 0
