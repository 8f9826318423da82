"""What a source file imports, found by reading it: also in functions, by importlib and by names in tables."""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

from kernels import _HOMES

PACKAGES = ("kernels", "viz")


class Import(NamedTuple):
    """One module that a file imports."""

    importer: str
    imported: str
    line: int


class Sources:
    """The modules of the project below a folder, by name."""

    def __init__(self, root: Path) -> None:
        files = (path for package in PACKAGES for path in (root / package).rglob("*.py"))
        self.files = {module_name(path.relative_to(root)): path for path in files}

    def imports(self) -> Iterator[Import]:
        """Every import of every module, in any form. A string that names a module of ours counts as one."""
        for importer, path in sorted(self.files.items()):
            package = importer if path.stem == "__init__" else importer.rpartition(".")[0]
            for node in ast.walk(ast.parse(path.read_text())):
                for imported in self._imported(node, package):
                    yield Import(importer, imported, getattr(node, "lineno", 0))

    def _imported(self, node: ast.AST, package: str) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom):
            home = resolve_name("." * node.level + (node.module or ""), package)
            if _is_ours(home):
                yield from (self._module(home, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and "." in str(node.value) and node.value in self.files:
            yield node.value

    def _module(self, home: str, name: str) -> str:
        """`from home import name`: the submodule of that name if there is one, else home.

        A public name of `kernels` is loaded from the module that `kernels/__init__.py` says.
        """
        if home == "kernels" and name in _HOMES:
            return _HOMES[name]
        return f"{home}.{name}" if f"{home}.{name}" in self.files else home


def module_name(path: Path) -> str:
    """Of a file by its path from the project's folder."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _is_ours(name: str) -> bool:
    return name.split(".")[0] in PACKAGES
