"""Everything that this project changes in Triton's interpreter, or listens to in it.

During a launch the interpreter replaces the functions of `triton.language`. It replaces them again whenever
one jitted function calls another (`tl.max` and `tl.sum` are jitted too), although they are already replaced.
That takes about half of the time of a tile step. `_patch_once_per_launch` skips the inner replacements.
Results do not change, because the same functions are in place.

With each sum, difference and product of integers the interpreter also computes whether it overflows, for an
assertion that it then leaves out, because it has `debug` off. That takes half of the remaining time.
`_skip_unused_checks` skips it.

Each value has a type, and each type of a tile is checked and named anew, with its shape twice, as numbers and
as constants. `_remember_types` makes each once, which takes another third.
"""

import contextlib
import dataclasses
import functools
import importlib
import math
import types
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

SUPPORTED = ("3.6.", "3.7.", "3.8.", "3.9.")
"""Triton versions whose interpreter was read and tested. Other versions run unchanged."""


@functools.cache
def quicken() -> bool:
    """Apply all three. False if this Triton is not SUPPORTED."""
    import triton

    if not triton.__version__.startswith(SUPPORTED):
        return False
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    _patch_once_per_launch(interpreter)
    _skip_unused_checks(interpreter.interpreter_builder)
    _remember_types(interpreter, interpreter.tl.core)
    return True


def _patch_once_per_launch(interpreter: Any) -> None:
    """Patch the language once per launch, not once per nested call."""
    original = interpreter._patch_lang
    languages = {id(interpreter.tl), id(interpreter.tl.core)}
    modules_of: dict[int, frozenset[int]] = {}
    scopes: list = []  # of the launch that runs
    patched: set[int] = set()

    def restore() -> None:
        while scopes:
            scopes.pop().restore()
        patched.clear()

    @functools.wraps(original)
    def patch_lang(function: Callable) -> types.SimpleNamespace:
        names = function.__globals__
        if id(names) not in modules_of:
            modules_of[id(names)] = frozenset(id(value) for value in names.values() if id(value) in languages)
        outermost = not scopes
        if not modules_of[id(names)] <= patched:
            scopes.append(original(function))
            patched.update(modules_of[id(names)])
        return types.SimpleNamespace(restore=restore if outermost else lambda: None)

    interpreter._patch_lang = patch_lang


def _skip_unused_checks(builder: Any) -> None:
    """Do not compute what nobody reads of integer overflow."""
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=builder.options.debug)


def _remember_types(interpreter: Any, core: Any) -> None:
    """Make the type of each kind of value once."""
    make_block, make_tensor = core.block_type.__init__, core.tensor.__init__
    unwrap, are_equal, elements_of = core._unwrap_if_constexpr, core.tuple.__eq__, interpreter._get_np_dtype
    plain = {int, bool, float, str, core.tensor, core.dtype, core.block_type, core.pointer_type}
    blocks: dict[tuple, dict[str, Any]] = {}
    elements: dict[str, Any] = {}
    true = core.constexpr(True)

    def of_tensors(shape: Any) -> tuple:
        return core.constexpr(math.prod(shape)), core.tuple([core.constexpr(size) for size in shape])

    @functools.wraps(make_block)
    def init_block(self: Any, element_ty: Any, shape: Any) -> None:
        key = element_ty.name, *shape, *map(type, shape)  # 16.0 is refused, also after 16
        if key not in blocks:
            make_block(self, element_ty, shape)
            blocks[key] = {**vars(self), "of_tensors": of_tensors(self.shape)}
        vars(self).update(blocks[key])

    @functools.wraps(make_tensor)
    def init_tensor(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, self.shape = type.of_tensors if type.is_block() else of_scalars

    @functools.wraps(elements_of)
    def element_type(of: Any) -> Any:
        name = of.scalar.name
        if name not in elements:
            elements[name] = elements_of(of)
        return elements[name]

    @functools.wraps(unwrap)
    def without_constexpr(value: Any) -> Any:
        if type(value) is core.constexpr:
            return value.value
        return value if type(value) in plain else unwrap(value)

    @functools.wraps(are_equal)
    def equals(self: Any, other: Any) -> Any:
        return true if self is other else are_equal(self, other)

    of_scalars = of_tensors(())
    core.block_type.__init__, core.tensor.__init__ = init_block, init_tensor
    core.tuple.__eq__, core._unwrap_if_constexpr = equals, without_constexpr
    interpreter._get_np_dtype = element_type


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
