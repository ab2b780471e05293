"""Shapes with inferred dimensions, as `reshape` accepts them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from passhost.ir.expr import Expr, as_dim
from passhost.ir.prim import IntImm, Mul, scalar
from passhost.ir.structural import structural_equal
from passhost.relax.expr import ShapeExpr
from passhost.relax.type import TensorType


def told_shape(x: Expr, shape: Any) -> Any:
    """Replaces -1 in a shape with the remaining number of elements, and 0 with the dimension of `x`.

    Raises `ValueError` if these are unknown.
    """
    if (isinstance(shape, str | Expr) and not isinstance(shape, ShapeExpr)) or not isinstance(
        shape, Iterable | ShapeExpr
    ):
        return shape
    dims = [as_dim(dim) for dim in (shape.values if isinstance(shape, ShapeExpr) else shape)]
    left = [at for at, dim in enumerate(dims) if _is(dim, -1)]
    kept = [at for at, dim in enumerate(dims) if _is(dim, 0)]
    if not left and not kept:
        return shape
    old = x.ty.shape if isinstance(x.ty, TensorType) else None
    if not isinstance(old, ShapeExpr):
        raise ValueError(
            "relax.reshape: a dimension is -1 or 0, but the shape of the tensor is unknown; write a number"
        )
    if len(left) > 1:
        raise ValueError("relax.reshape: more than one dimension is -1")
    for at in kept:
        if at >= len(old.values):
            raise ValueError(f"relax.reshape: dimension {at} is 0, but the tensor has {len(old.values)} dimensions")
        dims[at] = old.values[at]
    for at in left:
        dims[at] = _quotient(old.values, dims[:at] + dims[at + 1 :])
    return dims


def _is(dim: Expr, value: int) -> bool:
    return isinstance(dim, IntImm) and dim.value == value


def _quotient(all_dims: Iterable[Expr], known: Iterable[Expr]) -> Expr:
    """Returns the extent of a dimension, from the dimensions of the old shape and the known new dimensions."""
    (number, symbols), (by, divisors) = _factors(all_dims), _factors(known)
    for divisor in divisors:
        same = next((at for at, symbol in enumerate(symbols) if structural_equal(symbol, divisor)), None)
        if same is None:
            raise ValueError(
                f"relax.reshape: a dimension cannot be inferred, because {divisor!r} may not divide the rest"
            )
        del symbols[same]
    if by == 0 or number % by != 0:
        raise ValueError(f"relax.reshape: {number} elements do not fit a shape with a product of {by}")
    made: Any = scalar(number // by, "int64")
    for symbol in symbols:
        made = symbol * made
    return made  # type: ignore[no-any-return]


def _factors(dims: Iterable[Expr]) -> tuple[int, list[Expr]]:
    """Multiplies the constants of a product; returns them and the other factors."""
    number, symbols, work = 1, [], list(dims)
    while work:
        dim = work.pop(0)
        if isinstance(dim, IntImm):
            number *= dim.value
        elif isinstance(dim, Mul):
            work[:0] = [dim.a, dim.b]
        else:
            symbols.append(dim)
    return number, symbols
