"""Writes a static site: players of the recorded runs, lanes, talks and the table of speed.

It works from a folder and from any static host, below any path, and asks no other host for anything. Open
OUT/index.html. A run is loaded once a visitor asks for it. Needs neither torch nor Triton.
"""

import argparse
import sys
from pathlib import Path

from kernels.algorithms import algorithm_of
from kernels.file_format import UnreadableFile
from kernels.problem import InvalidProblem
from kernels.trace import Trace
from viz.site.pages import write_site


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 0, or 2 if a trace cannot be read or the folder not be written."""
    parser = argparse.ArgumentParser(prog="python -m viz.site", description=__doc__)
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="folder of the site; it is made if it is not there"
    )
    trace = "file of a trace (.npz) to add, once or several times; the first one plays at once"
    parser.add_argument("--trace", type=Path, action="append", default=[], help=trace)
    parser.add_argument("--source", default="", help="address of the project, for a link")
    arguments = parser.parse_args(argv)
    at = arguments.out
    own = []
    try:
        for at in arguments.trace:
            own.append(Trace.load(at))
            algorithm_of(own[-1])  # refuses one that is not known here
        size = write_site(arguments.out, own, arguments.source)
    except (OSError, UnreadableFile, InvalidProblem) as error:
        print(f"error: {at}: {error}", file=sys.stderr)
        return 2
    print(f"{size / 1e6:.1f} MB; open {arguments.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
