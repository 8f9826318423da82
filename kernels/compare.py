"""Compares our kernels with each peer: mean and least of its time over ours, by direction and head_dim.

The result is a Markdown table. If energy was measured, the time is that of calls without a pause.

python -m kernels.compare                 # of the shipped recording: the table in README.md
python -m kernels.compare my.json         # of a file from python -m kernels.measure --out or the Measure page
"""

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from kernels.file_format import UnreadableFile
from kernels.measure.document import read_document
from kernels.measure.measurement import DIRECTIONS, Measurement, PeerResult
from kernels.measure.peers import PEERS
from kernels.recordings import FILES, FOLDER

OURS = "ours"
Ratios = dict[tuple[str, int, str], list[float]]
"""Times of a peer over ours, one for each problem, by (direction, head_dim, peer)."""


def time_ratios(measurements: Iterable[Measurement]) -> Ratios:
    """Ratios of all problems on which a peer and ours were timed in the same run. Above 1, ours is faster."""
    ratios: Ratios = defaultdict(list)
    for measurement in measurements:
        for result in measurement.results:
            ours = measurement.result(OURS, result.direction)
            if result.peer != OURS and result.timing and ours and ours.timing:
                key = (result.direction, measurement.problem.head_dim, result.peer)
                ratios[key].append(_ms(result) / _ms(ours))
    return ratios


def _ms(result: PeerResult) -> float:
    """Time of a call without a pause if that was measured, else of one by itself."""
    assert result.timing
    return result.sustained.ms if result.sustained else result.timing.median_ms


def markdown_table(ratios: Ratios) -> str:
    """A line per direction and head_dim, a column per peer: geometric mean, least and number of problems.

    A peer of a file that is not in PEERS has its column behind them, under its own name.
    """
    timed = list(dict.fromkeys(peer for _, _, peer in ratios))
    peers = [peer for peer in PEERS if peer in timed] + [peer for peer in timed if peer not in PEERS]
    labels = [PEERS[peer].label if peer in PEERS else peer.replace("|", r"\|") for peer in peers]
    lines = [f"| | {' | '.join(labels)} |", "|:--|" + "--:|" * len(peers)]
    for direction in DIRECTIONS:
        for head_dim in sorted({key[1] for key in ratios if key[0] == direction}):
            cells = [_cell(ratios.get((direction, head_dim, peer), [])) for peer in peers]
            lines.append(f"| {direction}, head_dim {head_dim} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(ratios: list[float]) -> str:
    """Mean, least and count: "1.61, 0.97 (24)", bold if the peer is faster, a dash if it was never timed."""
    if not ratios:
        return "–"
    mean, least = (f"{of(ratios):.2f}" for of in (statistics.geometric_mean, min))
    return f"{mean if float(mean) >= 1 else f'**{mean}**'}, {least} ({len(ratios)})"


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 0, or 2 if the file holds no problem on which ours and a peer were timed."""
    parser = argparse.ArgumentParser(
        prog="python -m kernels.compare",
        description="Each peer's time over ours, geometric mean and least, in a Markdown table.",
    )
    about = "measurements (default: the shipped recording)"
    parser.add_argument("file", type=Path, nargs="?", default=FOLDER / FILES["sweeps"], help=about)
    path = parser.parse_args(argv).file
    try:
        ratios = time_ratios(read_document(path.read_bytes()).measurements)
    except (OSError, UnreadableFile) as error:
        print(f"error: {path}: {error}", file=sys.stderr)
        return 2
    if not ratios:
        lack = "has no problem on which ours and a peer were timed"
        print(f"error: {path} {lack}; measure them together, with --peers ours,…", file=sys.stderr)
        return 2
    print(markdown_table(ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main())
