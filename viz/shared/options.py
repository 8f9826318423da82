"""Options after `streamlit run app.py --`. Nothing on a page can change them.

`--kernel file.py:function`, once or several times, names the user's kernels, which Check then opens with;
`--talk my_talk.toml` names a talk, which then begins.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels.check.case.cases import USERS
from kernels.check.subject.user_kernel import UserKernel
from kernels.problem import InvalidProblem


def named_kernels() -> list[UserKernel]:
    """The user's kernels. Raises InvalidProblem for a name that cannot be one, and for too many."""
    kernels = [UserKernel.parse(given) for given in _options("--kernel")]
    if len(kernels) > len(USERS):
        raise InvalidProblem("kernel", f"{len(kernels)} kernels", f"expected at most {len(USERS)}")
    return kernels


def kernel_labels(kernels: Sequence[UserKernel]) -> dict[str, str]:
    """By their names in cases ("user", "user2", ...): what pages and URLs call the kernels."""
    names = [kernel.name for kernel in kernels]
    labels = [name if names.count(name) == 1 else f"{name} ({n})" for n, name in enumerate(names, 1)]
    return dict(zip(USERS, labels, strict=False))


def named_file(option: str) -> Path | None:
    """The file of "--talk", which may not exist; None if none was named."""
    return next(map(Path, _options(option)), None)


def _options(name: str) -> list[str]:
    """The values of an option, "" if it has none, in the order in which they are given."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument(name, dest="values", nargs="?", const="", default=[], action="append")
    return parser.parse_known_args(sys.argv[1:])[0].values
