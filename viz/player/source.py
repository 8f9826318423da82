"""The kernel's own source text, with the phase that each line belongs to.

A comment `# [name]` in a kernel starts a phase and `# [end]` ends it. The files are read as text, so that the
page needs no triton; what is shown is what runs.
"""

import ast
import functools
import importlib.util
import itertools
import re
import textwrap
from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path

from kernels import ROOT
from kernels.trace.algorithm import Kernel, SourceLine, SourcePart, SourceRef, SourceText

MARKER = re.compile(r"\s*# \[(?P<phase>.+?)\]")
RECORDING_TEST = re.compile(r"\b(TRACE|trace|LANES|lanes?)\b")
"""Found in the test of an `if` whose statements only record."""
RECORDING_CALL = re.compile(r"(record|mark)(_|$)")
"""Starts the name of a function that only records: those of primitives/recorder.py and marks.py, and what is
made of them."""

PATTERN_TEST = re.compile(r"(MASKED or )?FIXED\.PATTERN\.\w+|(loss|mods) is not None")
PLAIN_TEST = re.compile(r"(loss|mods) is None")
"""The whole test of an `if` whose statements are for masks and scores beyond a band alone, or for none."""

Lines = tuple[SourceLine, ...]


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
def kernel_source(kernel: Kernel, ref: SourceRef | SourceText, has_pattern: bool = False) -> KernelSource:
    """The marked lines before, in and after a kernel's loop, without what records; a SourceText as it is.

    Without a pattern, what is compiled for patterns alone is left out too.
    """
    if isinstance(ref, SourceText):
        return KernelSource(ref.file, (), ref.lines, ())
    names = (frozenset(phase.name for phase in part) for part in (kernel.before, kernel.step, kernel.after))
    file = _Module.read(ref.module).file
    files = dict.fromkeys(_Module.read(part.module).file for part in ref.parts)
    further = tuple(each for each in files if each != file)
    before, step, after = (_lines_of(ref, phases, has_pattern) for phases in names)
    return KernelSource(file, before, step, after, further)


def _lines_of(ref: SourceRef, phases: frozenset[str], has_pattern: bool) -> Lines:
    """The lines of these phases. Those of a primitive are indented, below the line that calls it."""
    parts = ref.parts or tuple(
        SourcePart(ref.module, function) for function in (ref.function, ref.inner) if function
    )
    shown: list[SourceLine] = []
    for part in parts:
        wanted = phases & {*(part.phases or phases)}
        for line in _Module.read(part.module).marked(part.function, wanted, has_pattern):
            shown.append(line)
            for module, function in ref.steps:
                if f"{function}(" in line.text:
                    indent = line.text[: len(line.text) - len(line.text.lstrip())] + "    "
                    called = _Module.read(module).marked(function, phases, has_pattern)
                    shown += [replace(inner, text=indent + inner.text) for inner in called]
    return tuple(shown)


def only_records(statement: ast.stmt) -> bool:
    """Whether a statement of a kernel only writes down what the kernel does."""
    if isinstance(statement, ast.If):
        return bool(RECORDING_TEST.search(ast.unparse(statement.test)))
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and bool(RECORDING_CALL.match(ast.unparse(call.func)))


def _numbers(statement: ast.stmt) -> set[int]:
    """Numbers of its lines."""
    return set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))


def _plain_branch(node: ast.If) -> list[ast.stmt] | None:
    """What an `if` about patterns does without one; None for another `if`."""
    test = ast.unparse(node.test)
    if PLAIN_TEST.fullmatch(test):
        return node.body
    return node.orelse if PATTERN_TEST.fullmatch(test) else None


@dataclass(frozen=True)
class _Module:
    """A source file, its functions, the lines that only record, and those about patterns.

    `plain` are lines of a branch without a pattern, which is one step further in.
    """

    file: str
    lines: tuple[str, ...]
    functions: dict[str, ast.FunctionDef]
    traced: frozenset[int]
    patterned: frozenset[int]
    plain: frozenset[int]

    @staticmethod
    @functools.cache
    def read(name: str) -> "_Module":
        """Read a module's file without importing the module. Its packages are imported."""
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"there is no module {name}")
        path = Path(spec.origin).resolve()
        text = path.read_text()
        tree = ast.parse(text)
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        traced: set[int] = set()
        patterned: set[int] = set()
        plain: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and only_records(node):
                traced |= _numbers(node)
            elif isinstance(node, ast.If) and (branch := _plain_branch(node)) is not None:
                kept = {*itertools.chain(*map(_numbers, branch))}
                patterned |= _numbers(node) - kept
                plain |= kept
        file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        sets = map(frozenset, (traced, patterned, plain))
        return _Module(file, tuple(text.splitlines()), functions, *sets)

    def marked(self, function: str, phases: Set[str], has_pattern: bool) -> Lines:
        """The lines of a function that stand below the marker of one of the phases, up to the next marker."""
        left_out = self.traced if has_pattern else self.traced | self.patterned
        node = self.functions[function]
        phase = ""
        found: list[tuple[int, str, str]] = []
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            line = self.lines[number - 1]
            marker = MARKER.match(line)
            if marker and marker["phase"] not in phases:
                phase = ""
            elif marker:
                before = self.lines[number - 2]
                if not phase and before.strip().startswith("if ") and number - 1 not in left_out:
                    found.append((number - 1, before, marker["phase"]))
                elif found and found[-1][1].strip().startswith("if "):  # it guards the phase that follows
                    found[-1] = (*found[-1][:2], marker["phase"])
                phase = marker["phase"]
            if phase and line.strip() and number not in left_out:
                is_further_in = number in self.plain and not has_pattern
                found.append((number, line.removeprefix("    ") if is_further_in else line, phase))
        texts = textwrap.dedent("\n".join(text for _, text, _ in found)).splitlines()
        pairs = zip(found, texts, strict=True)
        return tuple(SourceLine(number, text, name, self.file) for (number, _, name), text in pairs)
