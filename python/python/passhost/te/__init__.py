"""Tensor expressions: tensors whose elements are expressions of their indices.

>>> from passhost import relax, te
>>> def matmul(A, B):
...     k = te.reduce_axis((0, A.shape[1]), "k")
...     return te.compute((A.shape[0], B.shape[1]), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")
>>> bb = relax.BlockBuilder()
>>> x = relax.Var("x", relax.TensorType([2, 3], "float32"))
>>> with bb.function("main", [x]):
...     y = bb.emit_te(matmul, x, relax.const([[1.0], [2.0], [3.0]]))
...     _ = bb.emit_func_output(y)
>>> y.ty
R.Tensor((2, 1), dtype="float32")
"""

from __future__ import annotations

from typing import Any

from passhost import tirx
from passhost.ir.expr import Expr
from passhost.te import emit
from passhost.te.expr import IterVar, Reduce, Tensor, TensorRead, compute, placeholder, reduce_axis
from passhost.tirx import (
    all,
    any,
    const,
    div,
    floordiv,
    floormod,
    if_then_else,
    indexdiv,
    indexmod,
    truncdiv,
    truncmod,
    var,
)
from passhost.tirx.math import FUNCTIONS, function

__all__ = [
    "IterVar",
    "Reduce",
    "Tensor",
    "TensorRead",
    "all",
    "any",
    "compute",
    "const",
    "create_prim_func",
    "div",
    "floordiv",
    "floormod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "max",
    "min",
    "placeholder",
    "prod",
    "reduce_axis",
    "select",
    "sum",
    "truncdiv",
    "truncmod",
    "var",
]


def sum(expr: Any, axis: Any) -> Reduce:
    """Returns the sum over axes."""
    return Reduce("sum", expr, axis)


def prod(expr: Any, axis: Any) -> Reduce:
    """Returns the product over axes."""
    return Reduce("prod", expr, axis)


def max(a: Any, b: Any = None, *, axis: Any = None) -> Expr:
    """Returns the maximum over axes, or of two values."""
    if axis is None and isinstance(b, IterVar | tuple | list):
        axis, b = b, None
    return Reduce("max", a, axis) if b is None else tirx.max(a, b)


def min(a: Any, b: Any = None, *, axis: Any = None) -> Expr:
    """Returns the minimum over axes, or of two values."""
    if axis is None and isinstance(b, IterVar | tuple | list):
        axis, b = b, None
    return Reduce("min", a, axis) if b is None else tirx.min(a, b)


def select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """Returns one of two values, which are both computed."""
    return tirx.Select(condition, true_value, false_value)


def create_prim_func(ops: Any, index_dtype_override: str | None = None) -> tirx.PrimFunc:
    """Returns the PrimFunc of tensors: its parameters are the placeholders, then the computed tensors.

    Its indices are int64, regardless of `index_dtype_override`.
    """
    return emit.create_prim_func(ops)


def __getattr__(name: str) -> Any:
    """Returns a scalar function."""
    if name not in FUNCTIONS:
        raise AttributeError(f"module 'passhost.te' has no attribute {name!r}")
    return function(name)
