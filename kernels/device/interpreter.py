"""Everything that this project changes in Triton's interpreter, or listens to in it.

During a launch the interpreter replaces the functions of `triton.language`. It replaces them again whenever
one jitted function calls another (`tl.max` and `tl.sum` are jitted too), although they are already replaced.
That takes about half of the time of a tile step. `patch_once_per_launch` skips the inner replacements.
Results do not change, because the same functions are in place.

With each sum, difference and product of integers the interpreter also computes whether it overflows, for an
assertion that it then leaves out, because it has `debug` off. That takes half of the remaining time.
`skip_unused_checks` skips it.
"""

import contextlib
import dataclasses
import importlib
import types
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

SUPPORTED = ("3.6.", "3.7.", "3.8.", "3.9.")
"""Triton versions whose interpreter was read and tested. Other versions run unchanged."""


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
    scopes: list = []  # of the launch that runs
    patched: set[int] = set()

    def restore() -> None:
        while scopes:
            scopes.pop().restore()
        patched.clear()

    def patch_lang(function: Callable) -> types.SimpleNamespace:
        names = function.__globals__
        if id(names) not in modules_of:
            modules_of[id(names)] = frozenset(id(value) for value in names.values() if id(value) in languages)
        outermost = not scopes
        if not modules_of[id(names)] <= patched:
            scopes.append(original(function))
            patched.update(modules_of[id(names)])
        return types.SimpleNamespace(restore=restore if outermost else lambda: None)

    patch_lang.once_per_launch = True  # type: ignore[attr-defined]  # a mark on our own function
    patch_lang.original = original  # type: ignore[attr-defined]  # likewise
    interpreter._patch_lang = patch_lang
    return True


def skip_unused_checks() -> bool:
    """Do not compute what nobody reads of integer overflow. False if this Triton is not SUPPORTED."""
    import triton

    builder: Any = importlib.import_module("triton.runtime.interpreter").interpreter_builder
    options: Any = getattr(builder, "options", None)
    if not triton.__version__.startswith(SUPPORTED) or not hasattr(options, "sanitize_overflow"):
        return False
    builder.options = dataclasses.replace(options, sanitize_overflow=options.debug)
    return True


replaced = unittest.mock.patch.object
"""`with replaced(target, name, value)`: give the target another attribute while the body runs."""


@contextlib.contextmanager
def _heard(name: str, listener: Callable, listen: bool) -> Iterator[None]:
    """Call `listener` with the interpreter's builder after each call of one of its methods.

    With `listen` False (no interpreter) nothing is heard, and triton is not imported.
    """
    if not listen:
        yield
        return
    from triton.runtime.interpreter import interpreter_builder

    original = getattr(interpreter_builder, name)

    def method(*arguments: int) -> None:
        original(*arguments)
        listener(interpreter_builder)

    with replaced(interpreter_builder, name, method):
        yield


class Launches(list[int]):
    """One entry per launch."""

    skipped = False
    """Whether those of compiled kernels do nothing from now on."""


@contextlib.contextmanager
def count_launches(listen: bool = True) -> Iterator[Launches]:
    """A list that grows by one entry per launch of the interpreter while the body runs, if it listens."""
    launches = Launches()
    with _heard("set_grid_dim", lambda builder: launches.append(1), listen):
        yield launches


@contextlib.contextmanager
def count_compiled_launches() -> Iterator[Launches]:
    """The same for compiled kernels, however they are launched."""
    from triton.runtime import driver

    launches, launcher = Launches(), driver.active.launcher_cls
    launch = launcher.__call__

    def counted(self: Any, *arguments: Any) -> None:
        launches.append(1)
        if not launches.skipped:
            launch(self, *arguments)

    with replaced(launcher, "__call__", counted):
        yield launches


def watch_programs(
    report: Callable[[float], None], listen: bool = True
) -> contextlib.AbstractContextManager[None]:
    """Call `report` as each program starts, with the share of the launch's programs that ran before it."""

    def share(builder: Any) -> None:
        (x, y, z), (nx, ny, nz) = builder.grid_idx, builder.grid_dim
        report(((x * ny + y) * nz + z) / (nx * ny * nz))

    return _heard("set_grid_idx", share, listen)
