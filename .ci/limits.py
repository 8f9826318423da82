"""Lint: lengths of files and functions, and how often the formatter is switched off. See CONTRIBUTING.md."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILE_LINES, FUNCTION_LINES, KERNEL_LINES, UNFORMATTED = 350, 45, 110, 20
FOLDERS = ("kernels", "viz", "tests", "examples")


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether Triton compiles the function: it is decorated with @triton.jit or @gluon.jit."""
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def too_long(path: Path) -> list[str]:
    """What is too long in a Python file."""
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    found = [f"{path}: {lines} lines, at most {FILE_LINES}"] if lines > FILE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            most = KERNEL_LINES if is_kernel(node) else FUNCTION_LINES
            if length > most:
                found.append(f"{path}:{node.lineno}: {node.name} has {length} lines, at most {most}")
    return found


files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
findings = [finding for path in files for finding in too_long(path)]
unformatted = sum(path.read_text(encoding="utf-8").count("fmt: skip") for path in files)
if unformatted > UNFORMATTED:
    findings.append(f"{unformatted} times `fmt: skip`, at most {UNFORMATTED}")
print("\n".join(findings) or f"{len(files)} files are within the limits")
sys.exit(bool(findings))
