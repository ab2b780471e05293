"""Relax types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from passhost.ir.expr import Expr
from passhost.ir.type import FuncType, PrimType, TupleType, Type, as_dtype, dims_of
from passhost.relax.global_info import VDevice

__all__ = ["AnyType", "FuncType", "ObjectType", "PackedFuncType", "ShapeType", "TensorType", "TupleType"]


class AnyType(Type):
    """The type of any value."""

    __slots__ = ()

    def __init__(self, span: Any = None) -> None:
        """Creates the type; all are equal."""


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
        """Takes the dimensions, or only their number."""
        self._values = None if values is None else dims_of(values)
        self._ndim = _number(ndim, self._values)


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
        """Takes a shape (a list of dimensions or an expression), or the number of dimensions."""
        from passhost.ir.prim import prim_type
        from passhost.relax.expr import ShapeExpr

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


def _number(ndim: int, dims: Any) -> int:
    if isinstance(ndim, bool) or not isinstance(ndim, int) or ndim < -1:
        raise ValueError(f"ndim is a number of dimensions, or -1, not {ndim!r}")
    if dims is None:
        return ndim
    if ndim not in (-1, len(dims)):
        raise ValueError(f"ndim is {ndim}, but the shape has {len(dims)} dimensions")
    return len(dims)
