"""Imports the user's file with its own surroundings: its folder, its package, its other modules.

The user's modules are kept apart from ours. While the user's code runs, its own package of the name `kernels`
stands in `sys.modules` in the place of ours, and every load after a change imports all of them anew.
"""

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

MODULE_NAME = "user_kernel_file"
"""Name of a file that belongs to no package."""
OURS = ("kernels", "viz", "tests")
"""Packages of this project whose names the user's own packages may have."""
OUR_ROOT = Path(__file__).resolve().parents[3]
INSTALLED = {"site-packages", "dist-packages"}
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))


def package_root(path: Path) -> tuple[Path, str]:
    """The folder that imports of the file start from, and the file's name as a module there.

    The file belongs to a package if `__init__.py` lies beside it, or if it has relative imports.
    """
    levels = max((level for level, _ in _imports(path)), default=0)
    folder, names = path.parent, [path.stem]
    while ((folder / "__init__.py").exists() or levels > 0) and folder.parent != folder:
        names.insert(0, folder.name)
        folder, levels = folder.parent, levels - 1
    return folder, ".".join(names)


def source_files(path: Path) -> tuple[Path, ...]:
    """The file, and all files below its root that it imports, directly or not, in any function."""
    root, _ = package_root(path)
    found: set[Path] = set()
    seen: set[tuple[str, ...]] = set()
    """Folders, then names, that were looked for."""
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file not in found and file.is_file():
            found.add(file)
            for level, names in _imports(file):
                base = file.parents[level - 1] if 0 < level <= len(file.parents) else root
                for count in range(len(names) + 1):
                    asked = (str(base), *names[:count])
                    if asked not in seen:
                        seen.add(asked)
                        folder = base.joinpath(*names[:count])
                        waiting += [folder / "__init__.py", folder.with_suffix(".py")]  # if they exist
    return tuple(sorted(found))


def version_of(path: Path) -> str:
    """Changes when the file changes, or one that it imports; "missing" if there is no file."""
    if not path.is_file():
        return "missing"
    digest = hashlib.sha256()
    for file in source_files(path):
        with contextlib.suppress(OSError):
            digest.update(f"\n{file}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _imports(path: Path) -> tuple[tuple[int, list[str]], ...]:
    try:
        return _imports_of(path.read_bytes())
    except OSError:
        return ()


@functools.lru_cache(maxsize=512)
def _imports_of(source: bytes) -> tuple[tuple[int, list[str]], ...]:
    """What a file may import: the level, 0 if it is not relative, and names. None if it is not Python."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        (
            getattr(node, "level", 0),
            f"{getattr(node, 'module', None) or ''}.{each.name}".strip(".").split("."),
        )
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    )


class UserModules:
    """The modules of one version of the user's file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root, self.name = package_root(path)
        self._modules: dict[str, ModuleType] = {}

    def load(self) -> ModuleType:
        """Import the file. Raises whatever it raises."""
        importlib.invalidate_caches()
        with self.active():
            if "." in self.name:
                return importlib.import_module(self.name)
            spec = importlib.util.spec_from_file_location(MODULE_NAME, self.path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[MODULE_NAME] = module
            spec.loader.exec_module(module)
            return module

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """While the body runs, imports find the user's modules first."""
        hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if self._shadows(name)}
        before = set(sys.modules)
        sys.modules.update(self._without_init() | self._modules)
        sys.path.insert(0, str(self.root))
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            yield
        finally:
            sys.dont_write_bytecode = writes
            with contextlib.suppress(ValueError):
                sys.path.remove(str(self.root))
            mine = [name for name in sys.modules if name not in before and self._is_mine(sys.modules[name])]
            self._modules |= {name: sys.modules.pop(name) for name in mine}
            sys.modules.update(hidden)

    def holds(self, file: str) -> bool:
        """Whether a source file is one of the user's."""
        path = Path(file)
        others = (STANDARD_LIBRARY, OUR_ROOT / "kernels", OUR_ROOT / "viz")
        installed = not INSTALLED.isdisjoint(path.parts)
        return path.is_relative_to(self.root) and not installed and not any(map(path.is_relative_to, others))

    def _without_init(self) -> dict[str, ModuleType]:
        """The user's packages of our names that have no `__init__.py`: by itself Python would prefer ours."""
        folders = {top: self.root / top for top in OURS if self._shadows(top)}
        packages = {}
        for top, folder in folders.items():
            if folder.is_dir() and not (folder / "__init__.py").exists():
                packages[top] = ModuleType(top)
                packages[top].__path__ = [str(folder)]
        return packages

    def _shadows(self, name: str) -> bool:
        """Whether a module of ours has the name of one of the user's packages."""
        top = name.partition(".")[0]
        if top not in OURS or self.root == OUR_ROOT:
            return False
        folder = self.root / top
        return folder.with_suffix(".py").is_file() or any(folder.glob("**/*.py"))

    def _is_mine(self, module: ModuleType) -> bool:
        about = vars(module)  # a module that loads late would import more if it was asked
        places = [about.get("__file__"), *about.get("__path__", ())]
        is_file = about.get("__name__") == MODULE_NAME
        return is_file or any(place and self.holds(str(place)) for place in places)
