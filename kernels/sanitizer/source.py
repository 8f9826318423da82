"""Where in the user's source an access is made: its line, its statement, and the functions around them."""

import ast
import functools
import importlib.util
import linecache
import sys
import textwrap
from pathlib import Path
from types import CodeType, FrameType

from kernels.trace.algorithm import SourceLine

Site = tuple[str, int]
"""File and line."""
Statement = tuple[str, int, int]
"""File, first and last line."""

_TRITON = importlib.util.find_spec("triton")
FOREIGN = tuple(str(Path(file).parent) for file in (__file__, _TRITON.origin if _TRITON else "") if file)
"""Folders of code that stands between a kernel and its accesses."""


@functools.lru_cache(maxsize=4096)
def _is_foreign(code: CodeType) -> bool:
    return code.co_filename.startswith(FOREIGN)


def current_site(of_file: str = "") -> Site:
    """File and line of the innermost frame that is neither Triton's nor this folder's.

    If one of these frames is in `of_file`, the innermost of those: the kernel's line that calls a helper in
    another file.
    """
    found = ("", 0)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _is_foreign(frame.f_code):
            site = (frame.f_code.co_filename, frame.f_lineno)
            if of_file in ("", site[0]):
                return site
            found = found if found[0] else site
        frame = frame.f_back
    return found


def line_of(file: str, line: int) -> str:
    """Text of a line, without indentation."""
    return linecache.getline(file, line).strip()


COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.ClassDef)


def _read(file: str) -> tuple[list[str], ast.Module]:
    """Lines and syntax tree of a file; empty ones for a kernel that no file holds."""
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    try:
        return lines, _parsed("".join(lines))
    except (SyntaxError, ValueError):
        return [], ast.Module([], [])


_parsed = functools.lru_cache(maxsize=64)(ast.parse)


def _around(file: str, line: int, kind: type[ast.stmt]) -> ast.stmt | None:
    """The smallest node of that kind around a line. Python counts decorators to the code of a function."""
    nodes = (node for node in ast.walk(_read(file)[1]) if isinstance(node, kind))
    found = [node for node in nodes if _first(node) <= line <= _end(node)]
    return min(found, key=lambda node: _end(node) - _first(node), default=None)


def _first(node: ast.stmt) -> int:
    return min((node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))))


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


@functools.lru_cache(maxsize=1024)
def statement_of(site: Site) -> Statement:
    """File, first and last line of the statement at a site; of a compound one its line alone."""
    file, line = site
    node = _around(file, line, ast.stmt)
    if node is None or isinstance(node, COMPOUND):
        return file, line, line
    return file, node.lineno, _end(node)


def source_lines(kernel: Site, names: dict[Statement, str]) -> tuple[SourceLine, ...]:
    """Each line of the kernel and of the functions with a statement; the kernel itself comes first.

    `names` are those of the statements; each is the phase of its lines.
    """
    functions: dict[Site, ast.stmt] = {}
    for file, line in [kernel, *((file, first) for file, first, _ in names)]:
        if node := _around(file, line, ast.FunctionDef):
            functions.setdefault((file, node.lineno), node)
    shown: list[SourceLine] = []
    for (file, _), node in functions.items():
        of_line = {
            line: name
            for (where, first, last), name in names.items()
            if where == file
            for line in range(first, last + 1)
        }
        text = "".join(_read(file)[0][node.lineno - 1 : _end(node)])
        for number, words in enumerate(textwrap.dedent(text).splitlines(), node.lineno):
            if words.strip():
                shown.append(SourceLine(number, words, of_line.get(number, ""), Path(file).name))
    return tuple(shown)
