"""Which line of the user's source makes an access."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType

_TRITON = importlib.util.find_spec("triton")
FOREIGN = tuple(str(Path(file).parent) for file in (__file__, _TRITON.origin if _TRITON else "") if file)
"""Folders of code that stands between a kernel and its accesses."""


@functools.lru_cache(maxsize=4096)
def _is_foreign(code: CodeType) -> bool:
    return code.co_filename.startswith(FOREIGN)


def current_site(of_file: str = "") -> tuple[str, int]:
    """File and line of the innermost frame that is neither Triton's nor this folder's.

    If one of these frames is in `of_file`, the innermost of those: the kernel's line that calls a helper in
    another file.
    """
    found = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _is_foreign(frame.f_code):
            found = found or (frame.f_code.co_filename, frame.f_lineno)
            if not of_file or found[0] == of_file:
                return found
            if frame.f_code.co_filename == of_file:
                return of_file, frame.f_lineno
        frame = frame.f_back
    return found or ("", 0)


def line_of(file: str, line: int) -> str:
    """Text of a line, without indentation."""
    return linecache.getline(file, line).strip()
