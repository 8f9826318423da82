"""Options after `streamlit run app.py --`: `--kernel file.py:function`. Nothing on a page can change them."""

from __future__ import annotations

import sys

from kernels.check.user_kernel import UserKernel


def named_kernel() -> UserKernel | None:
    """The user's kernel; None if none was named. Raises InvalidProblem for a name that cannot be one."""
    words = sys.argv[1:]
    for index, word in enumerate(words):
        if word == "--kernel":
            return UserKernel.parse(words[index + 1] if index + 1 < len(words) else "")
        if word.startswith("--kernel="):
            return UserKernel.parse(word.removeprefix("--kernel="))
    return None
