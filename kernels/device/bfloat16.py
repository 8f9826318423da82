"""Exact bfloat16 in Triton's interpreter, for kernels that do not work around it.

The interpreter holds a bfloat16 as the 16 bits of a whole number. It then adds and multiplies these whole
numbers, and cuts a float32 off where a GPU rounds it. Here each operation widens its operands to float32 and
rounds its result to the nearest bfloat16 (ties to even), as the hardware does.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np


def widen(bits: np.ndarray) -> np.ndarray:
    """float32 of the same values as these bfloat16 bits (uint16)."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32).reshape(np.shape(bits))


def narrow(values: np.ndarray) -> np.ndarray:
    """The bits (uint16) of the nearest bfloat16, ties to even; NaN stays NaN."""
    with np.errstate(all="ignore"):
        singles = np.ascontiguousarray(values, dtype=np.float32)
    bits = singles.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(singles), np.uint16(0x7FC0), rounded).reshape(np.shape(values))


def make_bfloat16_exact() -> None:
    """Change the interpreter of this process; a second call does nothing."""
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    if not getattr(interpreter, "exact_bfloat16", False):
        _Patches(interpreter).apply()
        interpreter.exact_bfloat16 = True


class _Patches:
    """The operations of the interpreter that read or write bfloat16."""

    def __init__(self, interpreter: Any) -> None:
        import triton.language as tl

        self.tl, self.handle = tl, interpreter.TensorHandle
        self.builder, self.reduce = interpreter.InterpreterBuilder, interpreter.ReduceOps
        self.scan = interpreter.ScanOps

    def apply(self) -> None:
        for name, operands in {"unary_op": 1, "binary_op": 2, "ternary_op": 3, "create_fma": 3}.items():
            self._over_handles(name, operands)
        self._dot()
        self._casts()
        self._atomics()
        for owner, names in ((self.reduce, ("sum", "min_max")), (self.scan, ("cumsum", "cumprod"))):
            for name in names:
                self._over_tensors(owner, name)
        bf16 = self.tl.bfloat16
        self.builder.get_bf16 = lambda builder, value: self.handle(narrow(np.array([value])), bf16)

    def _is_bf16(self, handle: Any) -> bool:
        return handle.dtype.scalar == self.tl.bfloat16 and handle.data.dtype == np.uint16

    def _widened(self, handle: Any) -> Any:
        if not self._is_bf16(handle):
            return handle
        return self.handle(widen(handle.data), self.tl.float32)

    def _narrowed(self, handle: Any) -> Any:
        """The handle as bfloat16; a comparison gives bool, which stays as it is."""
        if handle.data.dtype == np.bool_:
            return self.handle(handle.data, self.tl.bfloat16)  # the interpreter keeps the operands' type
        return self.handle(narrow(handle.data), self.tl.bfloat16)

    def _over_handles(self, name: str, operands: int) -> None:
        original = getattr(self.builder, name)

        def operation(builder: Any, *arguments: Any) -> Any:
            handles = arguments[:operands]
            if not any(map(self._is_bf16, handles)):
                return original(builder, *arguments)
            wide = [self._widened(handle) for handle in handles]
            return self._narrowed(original(builder, *wide, *arguments[operands:]))

        setattr(self.builder, name, operation)

    def _dot(self) -> None:
        original = self.builder.create_dot

        def create_dot(builder: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
            product = original(builder, self._widened(a), self._widened(b), self._widened(d), *rest)
            return self._narrowed(product) if self._is_bf16(d) else product

        self.builder.create_dot = create_dot

    def _casts(self) -> None:
        bf16, cast, convert = self.tl.bfloat16, self.builder.cast_impl, self.builder.create_fp_to_fp

        def cast_impl(builder: Any, source: Any, kind: Any) -> Any:
            if kind.scalar == bf16:
                return source if self._is_bf16(source) else self.handle(narrow(source.data), bf16)
            return cast(builder, self._widened(source), kind)

        def create_fp_to_fp(builder: Any, source: Any, kind: Any, rounding: Any) -> Any:
            to_or_from = bf16 in (kind.scalar, source.dtype.scalar)
            eight_bits = 8 in (kind.scalar.primitive_bitwidth, source.dtype.scalar.primitive_bitwidth)
            if to_or_from and not eight_bits:
                return cast_impl(builder, source, kind)
            return convert(builder, source, kind, rounding)

        self.builder.cast_impl, self.builder.create_fp_to_fp = cast_impl, create_fp_to_fp

    def _atomics(self) -> None:
        original = self.builder.create_atomic_rmw

        def create_atomic_rmw(builder: Any, operation: Any, pointer: Any, value: Any, *rest: Any) -> Any:
            if self._is_bf16(value):
                raise NotImplementedError("atomics on bfloat16 are not supported in interpreter mode")
            return original(builder, operation, pointer, value, *rest)

        self.builder.create_atomic_rmw = create_atomic_rmw

    def _over_tensors(self, owner: Any, name: str) -> None:
        """Operations along an axis: of float32 tensors, rounded at the end."""
        original: Callable = getattr(owner, name)
        tensor, bf16 = self.tl.core.tensor, self.tl.bfloat16

        def is_bf16(value: Any) -> bool:
            return isinstance(value, tensor) and self._is_bf16(value.handle)

        def rounded(value: Any) -> Any:
            if isinstance(value, tuple | list):
                return type(value)(map(rounded, value))
            if value.dtype != self.tl.float32:
                return value  # an index
            kind = self.tl.block_type(bf16, list(value.shape)) if value.type.is_block() else bf16
            return tensor(self._narrowed(value.handle), kind)

        def operation(self_: Any, argument: Any, *rest: Any, **options: Any) -> Any:
            first = argument[0] if isinstance(argument, tuple) else argument
            if not is_bf16(first):
                return original(self_, argument, *rest, **options)
            handle = self._widened(first.handle)
            kind = self.tl.float32
            wide = tensor(handle, self.tl.block_type(kind, list(first.shape)) if first.shape else kind)
            return rounded(original(self_, wide, *rest, **options))

        setattr(owner, name, operation)
