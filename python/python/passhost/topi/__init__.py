"""Operators as tensor expressions, for `BlockBuilder.emit_te`, as in `tvm.topi`.

>>> from passhost import relax, topi
>>> bb = relax.BlockBuilder()
>>> x = relax.Var("x", relax.TensorType([2, 3], "float32"))
>>> with bb.function("main", [x]):
...     y = bb.emit_te(topi.add, x, relax.const([1.0, 2.0, 3.0]))
...     _ = bb.emit_func_output(y)
>>> y.ty
R.Tensor((2, 3), dtype="float32")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from passhost import te, tirx
from passhost.ir.prim import intrinsic
from passhost.te import Tensor
from passhost.te.expr import add as add
from passhost.te.expr import broadcast, elementwise, extent
from passhost.te.expr import cast as cast
from passhost.te.expr import divide as divide
from passhost.te.expr import multiply as multiply
from passhost.te.expr import negative as negative
from passhost.te.expr import subtract as subtract
from passhost.tirx.math import FLOAT_FUNCTIONS, ROUNDINGS
from passhost.topi import nn as nn
from passhost.topi._shapes import broadcast_to as broadcast_to
from passhost.topi._shapes import concatenate as concatenate
from passhost.topi._shapes import expand_dims as expand_dims
from passhost.topi._shapes import flatten as flatten
from passhost.topi._shapes import flip as flip
from passhost.topi._shapes import repeat as repeat
from passhost.topi._shapes import reshape as reshape
from passhost.topi._shapes import split as split
from passhost.topi._shapes import stack as stack
from passhost.topi._shapes import tile as tile
from passhost.topi._shapes import trilu as trilu
from passhost.topi._shapes import where as where


def __getattr__(name: str) -> Any:
    """Returns a function of one tensor."""
    if name not in FLOAT_FUNCTIONS | ROUNDINGS:
        raise AttributeError(f"module 'passhost.topi' has no attribute {name!r}")

    def function(x: Tensor) -> Tensor:
        if name in ROUNDINGS and not _is_float(x):
            return identity(x)
        return elementwise(x, lambda value: intrinsic("nearbyint" if name == "round" else name, value))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of each element."
    return function


def identity(x: Tensor) -> Tensor:
    """Returns each element unchanged."""
    return elementwise(x, lambda value: value)


def _is_float(x: Tensor) -> bool:
    return x.dtype.startswith(("float", "bfloat"))


def _against_zero(x: Tensor) -> tuple[Any, Callable[[Any], Any]]:
    """Returns zero, and a function that converts an element so that it can be compared with zero. Integers become 64
    bits wide."""
    if _is_float(x):
        return tirx.const(0, x.dtype), lambda value: value
    return tirx.const(0, "int64"), lambda value: value.astype("int64")


def abs(x: Tensor) -> Tensor:
    """Returns the absolute value of each element."""
    if _is_float(x):
        return elementwise(x, lambda value: intrinsic("fabs", value))
    if x.dtype.startswith("uint"):
        return identity(x)
    zero, compared = _against_zero(x)
    return elementwise(x, lambda value: te.select(zero <= compared(value), value, tirx.const(0, x.dtype) - value))


def sign(x: Tensor) -> Tensor:
    """Returns 1, 0 or -1 for each element."""
    none, one, minus = (tirx.const(value, x.dtype) for value in (0, 1, -1))
    zero, compared = _against_zero(x)

    def element(value: Any) -> Any:
        return te.select(zero < compared(value), one, te.select(compared(value) < zero, minus, none))

    return elementwise(x, element, "T_sign")


def isnan(x: Tensor) -> Tensor:
    """Returns true for each element that is NaN."""
    if not _is_float(x):
        return elementwise(x, lambda _: tirx.const(False, "bool"))
    return elementwise(x, _is_nan)


def isinf(x: Tensor) -> Tensor:
    """Returns true for each element that is infinite."""
    if not _is_float(x):
        return elementwise(x, lambda _: tirx.const(False, "bool"))
    infinity = tirx.const(float("inf"), x.dtype)
    return elementwise(x, lambda value: te.all(intrinsic("fabs", value) == infinity, tirx.Not(_is_nan(value))))


def isfinite(x: Tensor) -> Tensor:
    """Returns true for each element that is neither NaN nor infinite."""
    if not _is_float(x):
        return elementwise(x, lambda _: tirx.const(True, "bool"))
    infinity = tirx.const(float("inf"), x.dtype)

    def element(value: Any) -> Any:
        return te.all(te.any(intrinsic("fabs", value) != infinity, _is_nan(value)), tirx.Not(_is_nan(value)))

    return elementwise(x, element)


def _is_nan(value: Any) -> Any:
    return intrinsic("isnan", value.astype("float32") if str(value.ty) == "float16" else value, dtype="bool")


def clip(x: Tensor, a_min: Any, a_max: Any) -> Tensor:
    """Clamps each element to `a_min` … `a_max`."""
    low, high = tirx.const(a_min, x.dtype), tirx.const(a_max, x.dtype)
    return elementwise(x, lambda value: te.max(te.min(value, high), low))


floor_divide = broadcast("floor_divide", lambda a, b: a // b)
floor_mod = broadcast("floor_mod", lambda a, b: a % b)
maximum = broadcast("maximum", te.max)
minimum = broadcast("minimum", te.min)
power = broadcast("power", lambda a, b: te.power(a, b))
less = broadcast("less", lambda a, b: a < b)
less_equal = broadcast("less_equal", lambda a, b: a <= b)
greater = broadcast("greater", lambda a, b: a > b)
greater_equal = broadcast("greater_equal", lambda a, b: a >= b)
left_shift = broadcast("left_shift", lambda a, b: a << b)
right_shift = broadcast("right_shift", lambda a, b: a >> b)


def full(shape: Sequence[Any], dtype: str, fill_value: Any) -> Tensor:
    """Returns a tensor of equal elements."""
    made: Tensor = te.compute(shape, lambda *_: tirx.const(fill_value, dtype), name="T_full")
    return made


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Permutes the axes, or reverses them by default."""
    order = [axis % a.ndim for axis in axes] if axes is not None else list(reversed(range(a.ndim)))
    if sorted(order) != list(range(a.ndim)):
        raise ValueError(f"axes {list(axes or ())} are not a permutation of {a.ndim} axes")
    made: Tensor = te.compute(
        [a.shape[axis] for axis in order],
        lambda *i: a(*(i[order.index(at)] for at in range(a.ndim))),
        name="T_transpose",
    )
    return made


def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Removes axes of extent 1: the given axes, or all of them."""
    if axis is None:
        gone = [at for at, dim in enumerate(a.shape) if extent(dim) == 1]
    else:
        gone = [at % a.ndim for at in ([axis] if isinstance(axis, int) else axis)]
    kept = [at for at in range(a.ndim) if at not in gone]
    made: Tensor = te.compute(
        [a.shape[at] for at in kept],
        lambda *i: a(*(i[kept.index(at)] if at in kept else 0 for at in range(a.ndim))),
        name="T_squeeze",
    )
    return made
