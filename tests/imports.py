"""What a source file imports, found by reading it: also in functions, by importlib and by names in tables."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernels import _HOMES

PACKAGES = ("kernels", "viz")
LOADERS = (
    "import_module",
    "__import__",
    "find_spec",
    "resolve_name",
    "spec_from_file_location",
    "run_module",
)
"""Functions that find or load a module whose name is made at run time."""


@dataclass(frozen=True)
class Import:
    """One module that a file imports, or a loader that it calls with a name made at run time ("")."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: {self.imported or 'a name made at run time'}"


class Sources:
    """The modules of the project below a folder, by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = (path for package in PACKAGES for path in (root / package).rglob("*.py"))
        self.files = {module_name(path.relative_to(root)): path for path in files}

    def imports(self) -> list[Import]:
        """Every import of every module."""
        return [found for name in sorted(self.files) for found in self.imports_of(name)]

    def imports_of(self, importer: str) -> Iterator[Import]:
        """Imports of one module, in any form. A string that is the name of a module of ours counts as one."""
        for node in ast.walk(ast.parse(self.files[importer].read_text())):
            for imported in self._imported(node, importer):
                yield Import(importer, imported, getattr(node, "lineno", 0))

    def _imported(self, node: ast.AST, importer: str) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if self._is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom):
            home = self._absolute(node, importer)
            if self._is_ours(home):
                yield from (self._module(home, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "." in node.value and node.value in self.files:
                yield node.value
        elif isinstance(node, ast.Call) and _called(node) in LOADERS and not _names_a_constant(node):
            yield ""

    def _absolute(self, node: ast.ImportFrom, importer: str) -> str:
        """The module of a `from` import; that of a relative one is counted from the importer."""
        if not node.level:
            return node.module or ""
        is_package = self.files[importer].stem == "__init__"
        parts = importer.split(".")
        parts = parts[: len(parts) - node.level + is_package]
        return ".".join([*parts, node.module] if node.module else parts)

    def _module(self, home: str, name: str) -> str:
        """`from home import name`: the submodule of that name if there is one, else home.

        A public name of `kernels` is loaded from the module that `kernels/__init__.py` says.
        """
        if home == "kernels" and name in _HOMES:
            return _HOMES[name]
        return f"{home}.{name}" if f"{home}.{name}" in self.files else home

    @staticmethod
    def _is_ours(name: str) -> bool:
        return name.split(".")[0] in PACKAGES


def module_name(path: Path) -> str:
    """Of a file by its path from the project's folder."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _names_a_constant(node: ast.Call) -> bool:
    return bool(node.args) and isinstance(node.args[0], ast.Constant)
