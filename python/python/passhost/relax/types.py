"""Computations with types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from passhost.ir._node import fields_of
from passhost.ir.expr import Expr, Var
from passhost.ir.type import MISSING, AnyType, FuncType, PrimType, TupleType, Type
from passhost.relax.type import ShapeType, TensorType


def expr_symbols(expr: Any, found: set[Var]) -> None:
    """Adds the symbolic variables of a scalar expression, or of a list of them."""
    work = [expr]
    while work:
        part = work.pop()
        if isinstance(part, Var):
            if part._prim:
                found.add(part)
        elif isinstance(part, tuple | list):
            work.extend(part)
        elif isinstance(part, Expr):
            work.extend(getattr(part, name) for name in fields_of(type(part)))


def symbols_in(types: Iterable[Type]) -> set[Var]:
    """Returns the symbolic variables in types."""
    found: set[Var] = set()
    work = list(types)
    while work:
        ty = work.pop()
        if isinstance(ty, TensorType):
            expr_symbols(ty.shape, found)
        elif isinstance(ty, ShapeType):
            expr_symbols(ty.values, found)
        elif isinstance(ty, TupleType):
            work.extend(ty.fields)
        elif isinstance(ty, FuncType):
            work.extend([*(ty.params or ()), ty.ret])
    return found


def defined_in(types: Iterable[Type]) -> list[Var]:
    """Returns the symbolic variables that parameters of these types define, in order. Each is a dimension by itself."""
    found: dict[Var, None] = {}
    work = list(types)[::-1]
    while work:
        ty = work.pop()
        dims: Any = ()
        if isinstance(ty, TensorType):
            dims = getattr(ty.shape, "values", ())
        elif isinstance(ty, ShapeType):
            dims = ty.values or ()
        elif isinstance(ty, TupleType):
            work.extend(ty.fields[::-1])
        found.update((dim, None) for dim in dims if isinstance(dim, Var))
    return list(found)


def well_defined(ty: Type, known: set[Var]) -> Type:
    """Returns a type without the parts that depend on unknown symbolic variables."""
    if not symbols_in([ty]) - known:
        return ty
    if isinstance(ty, TensorType):
        return TensorType(None, ty.dtype, ty.vdevice, ty.ndim)
    if isinstance(ty, ShapeType):
        return ShapeType(None, ty.ndim)
    if isinstance(ty, TupleType):
        return TupleType([well_defined(field, known) for field in ty.fields])
    return ty


def join_types(a: Type, b: Type) -> Type:
    """Returns the most specific type that includes two types."""
    if a is MISSING or b is MISSING:
        return MISSING
    if a is b or a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        dtype = a.dtype if a.dtype == b.dtype else None
        shape = a.shape if a.shape is not None and TensorType(a.shape) == TensorType(b.shape) else None
        ndim = a.ndim if a.ndim == b.ndim else -1
        return TensorType(shape, dtype, a.vdevice if a.vdevice == b.vdevice else None, ndim)
    if isinstance(a, ShapeType) and isinstance(b, ShapeType):
        return ShapeType(None, a.ndim if a.ndim == b.ndim else -1)
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
        return TupleType([join_types(x, y) for x, y in zip(a.fields, b.fields, strict=True)])
    if isinstance(a, PrimType) and isinstance(b, PrimType) and a == b:
        return a
    return AnyType()
