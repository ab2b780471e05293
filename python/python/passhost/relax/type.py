"""Relax types, and the shapes that they contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from passhost.ir._node import Comparison
from passhost.ir.expr import Expr, ExprWithOp, _Callable, dims_of
from passhost.ir.prim import prim_type
from passhost.ir.type import AnyType, FuncType, PrimType, TupleType, Type, as_dtype
from passhost.relax.global_info import VDevice

__all__ = ["AnyType", "FuncType", "ObjectType", "PackedFuncType", "ShapeExpr", "ShapeType", "TensorType", "TupleType"]


ObjectType = AnyType


class PackedFuncType(Type):
    """The type of external functions."""

    __slots__ = ()

    def __init__(self, span: Any = None) -> None:
        """Creates the type; all are equal."""


class ShapeType(Type):
    """The type of shapes: the dimensions, or only their number, which is -1 if unknown."""

    __slots__ = ("ndim", "values")
    values: tuple[Expr, ...] | None
    ndim: int

    def __init__(self, values: Iterable[object] | None = None, ndim: int = -1, span: Any = None) -> None:
        """Creates a type from the dimensions, or only their number."""
        self._values = None if values is None else dims_of(values)
        self._ndim = _number(ndim, self._values)

    def _includes(self, derived: Type) -> bool:
        if not isinstance(derived, ShapeType):
            return False
        known = self.values is None or Comparison(free=False).same(self.values, derived.values)
        return known and self.ndim in (-1, derived.ndim)


class ShapeExpr(_Callable, ExprWithOp):
    """A shape."""

    __slots__ = ("values",)
    values: tuple[Expr, ...]

    def __init__(self, values: Iterable[object], span: Any = None) -> None:
        """Creates a shape from the dimensions: integers and scalar expressions."""
        if not isinstance(values, Iterable) or isinstance(values, str):
            raise TypeError(f"a shape must be a list of dimensions, not {type(values).__name__}")
        self._values = dims_of(values)
        self._ty = ShapeType(self._values)

    def __getitem__(self, index: Any) -> Any:
        """Returns a dimension."""
        if isinstance(index, int) and not -len(self.values) <= index < len(self.values):
            raise IndexError(f"ShapeExpr index out of range: {index} of {len(self.values)}")
        return self.values[index]

    def __len__(self) -> int:
        """Returns the number of dimensions."""
        return len(self.values)

    def __iter__(self) -> Iterator[Expr]:
        """Iterates over the dimensions."""
        return iter(self.values)


class TensorType(Type):
    """The type of tensors: shape and data type, if known, and the virtual device."""

    __slots__ = ("dtype", "ndim", "shape", "vdevice")
    shape: Expr | None
    dtype: PrimType | None
    vdevice: VDevice | None
    ndim: int

    def __init__(
        self,
        shape: Expr | Iterable[object] | None = None,
        dtype: str | PrimType | None = "float32",
        vdevice: VDevice | str | None = None,
        ndim: int = -1,
        span: Any = None,
    ) -> None:
        """Creates a type from a shape (a list of dimensions or an expression), or the number of dimensions."""
        if shape is not None and not isinstance(shape, Expr):
            shape = ShapeExpr(shape)
        self._shape = shape
        name = as_dtype(dtype)
        self._dtype = None if name is None or name == "void" else prim_type(name)
        known = getattr(shape, "values", None)
        if known is None and isinstance(shape, Expr) and isinstance(shape.ty, ShapeType) and shape.ty.ndim >= 0:
            ndim = _number(ndim, range(shape.ty.ndim))
        self._ndim = _number(ndim, known)
        self._vdevice = VDevice(vdevice) if isinstance(vdevice, str) else vdevice

    def _equals(self, other: Type) -> bool:
        return (type(other) is TensorType and self._plainly_same(other)) or super()._equals(other)

    def _plainly_same(self, other: TensorType) -> bool:
        """Returns true if both types are obviously equal; otherwise, they may still be equal."""
        if self.dtype is not other.dtype or self.ndim != other.ndim:
            return False
        if self.vdevice is not None or other.vdevice is not None:
            return False
        dims, others = getattr(self.shape, "values", None), getattr(other.shape, "values", None)
        if dims is None or others is None:
            return self.shape is other.shape
        for dim, wanted in zip(dims, others, strict=True):  # noqa: SIM110 - a generator is slower
            if dim is not wanted:
                return False
        return True

    def _includes(self, derived: Type) -> bool:
        if not isinstance(derived, TensorType):
            return False
        dtype = self.dtype is None or self.dtype == derived.dtype
        shape = self.shape is None or (
            derived.shape is not None and Comparison(free=False).same(self.shape, derived.shape)
        )
        return dtype and shape and self.ndim in (-1, derived.ndim)


def _number(ndim: int, dims: Any) -> int:
    if isinstance(ndim, bool) or not isinstance(ndim, int) or ndim < -1:
        raise ValueError(f"ndim must be a number of dimensions, or -1, not {ndim!r}")
    if dims is None:
        return ndim
    if ndim not in (-1, len(dims)):
        raise ValueError(f"ndim is {ndim}, but the shape has {len(dims)} dimensions")
    return len(dims)
