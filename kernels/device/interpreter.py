"""Makes Triton's interpreter affordable: language patches are applied once a launch instead of at every nested call.

The interpreter replaces the functions of `triton.language` for the time of a launch. It also does so again whenever one
jitted function calls another (`tl.max` and `tl.sum` are jitted too), about half of the cost of a tile step, although
the outer launch already holds the same patch. Results do not change: the very same replacements are in force.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable

SUPPORTED = ("3.6.", "3.7.", "3.8.", "3.9.")
"""Triton versions whose interpreter was read and tested; any other one runs unchanged."""


class _Launch:
    """The patches of the launch under way. `restore` is what the interpreter calls when the launch ends."""

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
    """Stands in for the patch scope of a nested call: the outer launch restores."""

    def restore(self) -> None:
        pass


def patch_once_per_launch() -> bool:
    """Install the change into the interpreter that is loaded; True if it is in force, False for an unknown version."""
    import triton

    interpreter = importlib.import_module("triton.runtime.interpreter")
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

    patch_lang.once_per_launch = True
    patch_lang.original = original
    interpreter._patch_lang = patch_lang
    return True
