"""The statements of a user's source that load or store, and the text of the functions that hold them."""

from __future__ import annotations

import ast
import functools
import textwrap
from pathlib import Path

from kernels.sanitizer.log import Site

COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.ClassDef)


@functools.lru_cache(maxsize=64)
def _parsed(file: str, _version: int) -> tuple[tuple[str, ...], ast.Module]:
    text = Path(file).read_text()
    return tuple(text.splitlines()), ast.parse(text)


def _read(file: str) -> tuple[tuple[str, ...], ast.Module]:
    """Lines and syntax tree of a file; empty ones for a kernel that no file holds."""
    try:
        return _parsed(file, Path(file).stat().st_mtime_ns)
    except (OSError, SyntaxError, ValueError):
        return (), ast.Module([], [])


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
def statement_of(site: Site) -> tuple[str, int, int]:
    """File, first and last line of the statement at a site; of a compound one its line alone."""
    file, line = site
    node = _around(file, line, ast.stmt)
    if node is None or isinstance(node, COMPOUND):
        return file, line, line
    return file, node.lineno, _end(node)


def source_lines(
    kernel: Site, names: dict[tuple[str, int, int], str]
) -> tuple[tuple[int, str, str, str], ...]:
    """Each line of the kernel and of the functions with a statement; the kernel itself comes first.

    A line is its number, its text, the name of its statement or "", and its file's name. `names` are those of
    the statements.
    """
    functions: dict[tuple[str, int], ast.stmt] = {}
    for file, line in [kernel, *((file, first) for file, first, _ in names)]:
        if node := _around(file, line, ast.FunctionDef):
            functions.setdefault((file, node.lineno), node)
    shown: list[tuple[int, str, str, str]] = []
    for (file, _), node in functions.items():
        of_line = {
            line: name
            for (where, first, last), name in names.items()
            if where == file
            for line in range(first, last + 1)
        }
        text = "\n".join(_read(file)[0][node.lineno - 1 : _end(node)])
        for number, words in enumerate(textwrap.dedent(text).splitlines(), node.lineno):
            if words.strip():
                shown.append((number, words, of_line.get(number, ""), Path(file).name))
    return tuple(shown)
