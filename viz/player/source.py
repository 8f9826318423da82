"""The kernel's own source text, with the phase that each line belongs to.

A comment `# [name]` in a kernel starts a phase and `# [end]` ends it. The file is read as text, so that the page needs
no triton; what is shown is what runs.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from dataclasses import dataclass

from kernels import ROOT

MARKER = re.compile(r"\s*# \[(?P<phase>.+?)\]")


@dataclass(frozen=True)
class SourceLine:
    """One line of a kernel, or of its inner function. `phase` is "" for a line outside every phase."""

    number: int
    text: str
    phase: str


@dataclass(frozen=True)
class KernelSource:
    """The marked part of a kernel: before its loop over tiles, the loop body, and after it."""

    file: str
    prologue: tuple[SourceLine, ...]
    loop: tuple[SourceLine, ...]
    epilogue: tuple[SourceLine, ...]

    @staticmethod
    def phases(lines: tuple[SourceLine, ...]) -> tuple[str, ...]:
        """Names of the phases in the order in which they stand."""
        return tuple(dict.fromkeys(line.phase for line in lines if line.phase))


@functools.cache
def kernel_source(file: str, kernel: str, inner: str = "", loop: int = 0) -> KernelSource:
    """Read the marked lines of `kernel` from a file of the project.

    The loop over tiles is the body of the function `inner` where one is named, else the kernel's own innermost loop, and
    where it has several of them the one numbered `loop`. A kernel without a loop is all prologue. Lines that only serve
    the trace (under `if TRACE`, or calls of a log) are left out; line numbers are those of the file.
    """
    text = (ROOT / file).read_text()
    functions = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    outer = functions[kernel]
    marked = functools.partial(_marked, text.splitlines(), _traced_lines(text))
    if inner:
        body = functions[inner]
        call = next(
            n.lineno
            for n in ast.walk(outer)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == inner
        )
        return KernelSource(
            file,
            marked(outer.lineno, call),
            marked(body.lineno, body.end_lineno),
            marked(call, outer.end_lineno),
        )
    loops = sorted(
        (node for node in ast.walk(outer) if isinstance(node, ast.For) and _is_innermost(node)),
        key=lambda node: node.lineno,
    )
    if not loops:
        return KernelSource(file, marked(outer.lineno, outer.end_lineno), (), ())
    before = loops[loop - 1].end_lineno + 1 if loop else outer.lineno
    body, is_last = loops[loop], loop == len(loops) - 1
    epilogue = marked(body.end_lineno + 1, outer.end_lineno) if is_last else ()
    return KernelSource(file, marked(before, body.lineno), marked(body.lineno, body.end_lineno), epilogue)


def _is_innermost(loop: ast.For) -> bool:
    return not any(isinstance(node, ast.For) for node in ast.walk(loop) if node is not loop)


def _traced_lines(text: str) -> set[int]:
    """Numbers of the lines under `if TRACE:` and `if TRACE_ACC:`."""
    numbers = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id.startswith("TRACE"):
            numbers |= set(range(node.lineno, node.end_lineno + 1))
    return numbers


def _marked(lines: list[str], traced: set[int], first: int, last: int) -> tuple[SourceLine, ...]:
    """The lines from the first marker between two line numbers to `# [end]`, each with its phase."""
    phase, found = "", []
    for number in range(first, last + 1):
        line = lines[number - 1]
        marker = MARKER.match(line)
        if marker and marker["phase"] == "end":
            break
        if marker:
            if not phase and lines[number - 2].strip().startswith("if "):
                found.append((number - 1, lines[number - 2], marker["phase"]))
            elif found and found[-1][1].strip().startswith(
                "if "
            ):  # `if MASKED:` belongs to the phase that it guards
                found[-1] = (*found[-1][:2], marker["phase"])
            phase = marker["phase"]
        if phase and line.strip() and number not in traced:
            found.append((number, line, phase))
    texts = textwrap.dedent("\n".join(text for _, text, _ in found)).splitlines()
    return tuple(
        SourceLine(number, text, phase) for (number, _, phase), text in zip(found, texts, strict=True)
    )
