"""Everything that this project changes in Triton's interpreter, or listens to in it.

During a launch the interpreter replaces the functions of `triton.language`. It replaces them again whenever
one jitted function calls another (`tl.max` and `tl.sum` are jitted too), although they are already replaced.
That takes about half of the time of a tile step. `patch_once_per_launch` skips the inner replacements.
Results do not change, because the same functions are in place.
"""

from __future__ import annotations

import contextlib
import importlib
import types
from collections.abc import Callable, Iterator
from typing import Any

SUPPORTED = ("3.6.", "3.7.", "3.8.", "3.9.")
"""Triton versions whose interpreter was read and tested. Other versions run unchanged."""


class _Launch:
    """The patches of the launch that is running. The interpreter calls `restore` when it ends."""

    def __init__(self, patch: Callable) -> None:
        self._patch = patch
        self._scopes: list = []
        self._patched: set[int] = set()

    def add(self, modules: frozenset[int], function: Callable) -> None:
        if not modules <= self._patched:
            self._scopes.append(self._patch(function))
            self._patched |= modules

    @property
    def active(self) -> bool:
        return bool(self._scopes)

    def restore(self) -> None:
        while self._scopes:
            self._scopes.pop().restore()
        self._patched.clear()


class _Nested:
    """The patch scope of a nested call. It restores nothing: the outer launch does."""

    def restore(self) -> None:
        pass


def patch_once_per_launch() -> bool:
    """Patch the language once per launch, not once per nested call. False if this Triton is not SUPPORTED."""
    import triton

    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    original = getattr(interpreter, "_patch_lang", None)
    if not triton.__version__.startswith(SUPPORTED) or not isinstance(original, types.FunctionType):
        return False
    if getattr(original, "once_per_launch", False):
        return True

    import triton.language as tl

    languages = {id(tl), id(tl.core)}
    modules_of: dict[int, frozenset[int]] = {}
    launch, nested = _Launch(original), _Nested()

    def patch_lang(function: Callable) -> _Launch | _Nested:
        names = function.__globals__
        if id(names) not in modules_of:
            modules_of[id(names)] = frozenset(id(value) for value in names.values() if id(value) in languages)
        outermost = not launch.active
        launch.add(modules_of[id(names)], function)
        return launch if outermost else nested

    patch_lang.once_per_launch = True  # type: ignore[attr-defined]  # a mark on our own function
    patch_lang.original = original  # type: ignore[attr-defined]  # likewise
    interpreter._patch_lang = patch_lang
    return True


@contextlib.contextmanager
def replaced(target: Any, name: str, value: Any) -> Iterator[None]:
    """Give `target` another attribute while the body runs. Replacements may be nested."""
    own = vars(target)
    before = own.get(name, _MISSING)
    setattr(target, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(target, name)
        else:
            setattr(target, name, before)


_MISSING = object()


@contextlib.contextmanager
def count_launches(listen: bool = True) -> Iterator[list[int]]:
    """A list that grows by one entry per launch of the interpreter while the body runs.

    With `listen` False (no interpreter) it stays empty, and triton is not imported.
    """
    launches: list[int] = []
    if not listen:
        yield launches
        return
    from triton.runtime.interpreter import interpreter_builder

    original = interpreter_builder.set_grid_dim

    def set_grid_dim(*grid: int) -> None:
        launches.append(1)
        original(*grid)

    with replaced(interpreter_builder, "set_grid_dim", set_grid_dim):
        yield launches


@contextlib.contextmanager
def watch_programs(report: Callable[[float], None], listen: bool = True) -> Iterator[None]:
    """Call `report` at the start of each program, with the share of the launch's programs that ran before it.

    With `listen` False (no interpreter) nothing is reported, and triton is not imported.
    """
    if not listen:
        yield
        return
    from triton.runtime.interpreter import interpreter_builder

    original = interpreter_builder.set_grid_idx

    def set_grid_idx(x: int, y: int, z: int) -> None:
        original(x, y, z)
        nx, ny, nz = interpreter_builder.grid_dim
        report(((x * ny + y) * nz + z) / (nx * ny * nz))

    with replaced(interpreter_builder, "set_grid_idx", set_grid_idx):
        yield
