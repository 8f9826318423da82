"""Options after `streamlit run app.py --`. Nothing on a page can change them.

`--kernel file.py:function` names the user's kernel, `--trace file.npz` a saved trace that Explore opens.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kernels.check.user_kernel import UserKernel


def named_kernel() -> UserKernel | None:
    """The user's kernel; None if none was named. Raises InvalidProblem for a name that cannot be one."""
    given = _option("--kernel")
    return None if given is None else UserKernel.parse(given)


def named_trace() -> Path | None:
    """The file of a saved trace, which may not exist; None if none was named."""
    given = _option("--trace")
    return None if given is None else Path(given)


def _option(name: str) -> str | None:
    """The value of an option, "" if it has none; None if the option is not there."""
    words = sys.argv[1:]
    for index, word in enumerate(words):
        if word == name:
            return words[index + 1] if index + 1 < len(words) else ""
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return None
