"""Lint: lengths of files, functions and lines, and switched-off formatting. See CONTRIBUTING.md.

ruff holds the lines of Python. The formatter of scripts and style sheets leaves comments and texts as they
are, so their lines are held here.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILE_LINES, FUNCTION_LINES, KERNEL_LINES, UNFORMATTED, LINE_LENGTH = 600, 60, 110, 8, 110
FOLDERS = ("kernels", "viz", "tests", "examples")


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether Triton compiles the function: it is decorated with @triton.jit or @gluon.jit."""
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def too_long(path: Path) -> list[str]:
    """What is too long in a Python file."""
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    found = [f"{path}: {lines} lines, at most {FILE_LINES}"] if lines > FILE_LINES else []
    if (unformatted := text.count("fmt: skip")) > UNFORMATTED:
        found.append(f"{path}: {unformatted} times `fmt: skip`, at most {UNFORMATTED}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            most = KERNEL_LINES if is_kernel(node) else FUNCTION_LINES
            if length > most:
                found.append(f"{path}:{node.lineno}: {node.name} has {length} lines, at most {most}")
    return found


def too_wide(path: Path) -> list[str]:
    """What is too long in a script or a style sheet."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"{path}: {len(lines)} lines, at most {FILE_LINES}"] if len(lines) > FILE_LINES else []
    return found + [
        f"{path}:{number}: {len(line)} characters, at most {LINE_LENGTH}"
        for number, line in enumerate(lines, start=1)
        if len(line) > LINE_LENGTH
    ]


files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
scripts = [path for folder in ("viz", "tests") for path in sorted((ROOT / folder).rglob("*.js"))]
page_files = [path for path in scripts if path.parent.name != "vendor"]  # built by others
page_files += sorted((ROOT / "viz").rglob("*.css"))
findings = [finding for path in files for finding in too_long(path)]
findings += [finding for path in page_files for finding in too_wide(path)]
print("\n".join(findings) or f"{len(files) + len(page_files)} files are within the limits")
sys.exit(bool(findings))
