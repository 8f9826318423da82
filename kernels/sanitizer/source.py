"""Where in the user's source an access is made."""

import functools
import importlib.util
import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType

Site = tuple[str, int]
"""File and line."""

_TRITON = importlib.util.find_spec("triton")
FOREIGN = tuple(str(Path(file).parent) for file in (__file__, _TRITON.origin if _TRITON else "") if file)
"""Folders of code that stands between a kernel and its accesses."""


@functools.lru_cache(maxsize=4096)
def _is_foreign(code: CodeType) -> bool:
    return code.co_filename.startswith(FOREIGN)


def current_site() -> Site:
    """File and line of the innermost frame that is neither Triton's nor this folder's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _is_foreign(frame.f_code):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def line_of(file: str, line: int) -> str:
    """Text of a line, without indentation."""
    return linecache.getline(file, line).strip()
