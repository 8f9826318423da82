"""The kernel's own source text, with the phase that each line belongs to.

A comment `# [name]` in a kernel starts a phase and `# [end]` ends it. The files are read as text, so that the
page needs no triton; what is shown is what runs.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

from kernels import ROOT
from kernels.trace.algorithm import SourceLine, SourcePart, SourceRef, SourceText

MARKER = re.compile(r"\s*# \[(?P<phase>.+?)\]")
RECORDING_TEST = re.compile(r"\b(TRACE|trace|LANES|lanes?)\b")
"""Found in the test of an `if` whose statements only record."""
RECORDING_CALL = re.compile(r"(record|mark)(_|$)")
"""Starts the name of a function that only records: those of primitives/recorder.py and marks.py, and what is
made of them."""

Lines = tuple[SourceLine, ...]
Spans = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class KernelSource:
    """The marked lines of a kernel: before its loop over tiles, the loop body, and after it."""

    file: str
    """Path from the project's folder, or the whole path of a file elsewhere."""
    before: Lines
    step: Lines
    after: Lines
    further_files: tuple[str, ...] = ()
    """Other files of the kernel itself, if its phases lie in several; primitives are not among them."""


@functools.cache
def kernel_source(ref: SourceRef | SourceText) -> KernelSource:
    """Read the marked lines of a kernel.

    The loop over tiles is the body of the inner function if the reference names one, else the kernel's own
    innermost loop with the number `ref.loop`. A kernel without a loop has only lines before it. If the
    reference names parts of several functions, their lines follow each other in its order. Statements that
    only record are left out. Line numbers are those of the file. The lines of a SourceText are shown as they
    are, in one part.
    """
    if isinstance(ref, SourceText):
        return KernelSource(ref.file, (), ref.lines, ())
    module = _Module.read(ref.module)
    if ref.step_parts:
        of_parts = (ref.before_parts, ref.step_parts, ref.after_parts)
        before, step, after = (_with_primitives(_lines_of(parts), ref) for parts in of_parts)
        files = tuple(_Module.read(name).file for name in ref.modules if name != ref.module)
        return KernelSource(module.file, before, step, after, files)
    outer = module.functions[ref.function]
    if ref.inner:
        body = module.functions[ref.inner]
        calls = (node for node in ast.walk(outer) if isinstance(node, ast.Call))
        call = next(node.lineno for node in calls if _calls(node, ref.inner))
        spans: Spans = ((outer.lineno, call), (body.lineno, _end(body)), (call, _end(outer)))
    else:
        spans = _spans_around_loop(outer, ref.loop)
    before, step, after = (_with_primitives(module.marked(first, last), ref) for first, last in spans)
    return KernelSource(module.file, before, step, after)


def _spans_around_loop(function: ast.FunctionDef, number: int) -> Spans:
    """(first, last) lines before one of the innermost loops, in it, and after it.

    Lines after a loop belong to it only if it is the last one, since they come before the next one.
    """
    loops = [node for node in ast.walk(function) if isinstance(node, ast.For) and _is_innermost(node)]
    loops.sort(key=lambda node: node.lineno)
    nothing = (1, 0)
    if not loops:
        return (function.lineno, _end(function)), nothing, nothing
    loop = loops[number]
    first = _end(loops[number - 1]) + 1 if number else function.lineno
    after = (_end(loop) + 1, _end(function)) if loop is loops[-1] else nothing
    return (first, loop.lineno), (loop.lineno, _end(loop)), after


def _lines_of(parts: tuple[SourcePart, ...]) -> Lines:
    """The marked lines of the parts, one part after the other."""
    shown: list[SourceLine] = []
    for part in parts:
        module = _Module.read(part.module)
        node = module.functions[part.function]
        shown += module.marked(node.lineno, _end(node), part.phases)
    return tuple(shown)


def _is_innermost(loop: ast.For) -> bool:
    return not any(isinstance(node, ast.For) for node in ast.walk(loop) if node is not loop)


def _calls(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _with_primitives(lines: Lines, ref: SourceRef) -> Lines:
    """The lines, with the marked lines of a primitive, indented, below the line that calls it."""
    shown: list[SourceLine] = []
    for line in lines:
        shown.append(line)
        for name, function in ref.steps:
            if f"{function}(" in line.text:
                module = _Module.read(name)
                node = module.functions[function]
                indent = line.text[: len(line.text) - len(line.text.lstrip())] + "    "
                shown += [
                    replace(inner, text=indent + inner.text)
                    for inner in module.marked(node.lineno, _end(node))
                ]
    return tuple(shown)


def only_records(statement: ast.stmt) -> bool:
    """Whether a statement of a kernel only writes down what the kernel does."""
    if isinstance(statement, ast.If):
        return bool(RECORDING_TEST.search(ast.unparse(statement.test)))
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and bool(RECORDING_CALL.match(ast.unparse(call.func)))


@dataclass(frozen=True)
class _Module:
    """A source file, its functions, and the lines that only record."""

    file: str
    lines: tuple[str, ...]
    functions: dict[str, ast.FunctionDef]
    traced: frozenset[int]

    @staticmethod
    @functools.cache
    def read(name: str) -> _Module:
        """Read a module's file without importing the module. Its packages are imported."""
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"there is no module {name}")
        path = Path(spec.origin).resolve()
        text = path.read_text()
        tree = ast.parse(text)
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        traced: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and only_records(node):
                traced |= set(range(node.lineno, _end(node) + 1))
        file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        return _Module(file, tuple(text.splitlines()), functions, frozenset(traced))

    def marked(self, first: int, last: int, phases: tuple[str, ...] = ()) -> Lines:
        """The lines between two line numbers that stand below a marker, up to `# [end]`, each with its phase.

        Only those of the `phases`, if some are named; else up to the first `# [end]`.
        """
        phase = ""
        found: list[tuple[int, str, str]] = []
        for number in range(first, last + 1):
            line = self.lines[number - 1]
            marker = MARKER.match(line)
            if marker and marker["phase"] == "end" and not phases:
                break
            if marker and phases and marker["phase"] not in phases:
                phase = ""
            elif marker:
                before = self.lines[number - 2]
                if not phase and before.strip().startswith("if "):
                    found.append((number - 1, before, marker["phase"]))
                elif found and found[-1][1].strip().startswith("if "):  # it guards the phase that follows
                    found[-1] = (*found[-1][:2], marker["phase"])
                phase = marker["phase"]
            if phase and line.strip() and number not in self.traced:
                found.append((number, line, phase))
        texts = textwrap.dedent("\n".join(text for _, text, _ in found)).splitlines()
        pairs = zip(found, texts, strict=True)
        return tuple(SourceLine(number, text, name, self.file) for (number, _, name), text in pairs)
