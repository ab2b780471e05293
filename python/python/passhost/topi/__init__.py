"""Operators as tensor expressions, for `BlockBuilder.emit_te`, as in `tvm.topi`.

An operator that also exists in Relax is computed like its legalization, but blocks have the names that TVM's `topi`
gives them.

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

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from passhost import _provided, tirx
from passhost.ir.expr import Expr
from passhost.ir.prim import convert, folded, intrinsic
from passhost.relax.op.declared import signatures
from passhost.te.expr import Tensor, elementwise, extent
from passhost.tirx.math import FLOAT_FUNCTIONS, ROUNDINGS
from passhost.topi import nn as nn
from passhost.topi._host import Operand, legalized, of_one_type, of_type, operand
from passhost.topi.nn import flatten as flatten


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _of_one(name: str) -> Callable[[Tensor], Tensor]:
    return _named(lambda x: legalized(name, x)[0], name, f"Returns `{name}` of each element.")


def _of_two(name: str) -> Callable[[Any, Any], Any]:
    """Returns an operator on two tensors, on a tensor and a number, or on two numbers."""

    def function(lhs: Any, rhs: Any) -> Any:
        [made] = legalized(name, *of_one_type(lhs, rhs))
        if isinstance(lhs, Tensor) or isinstance(rhs, Tensor) or made.element is None:
            return made
        return folded(made.element)

    return _named(function, name, f"Returns `{name}` of each pair of elements; shapes are broadcast.")


def __getattr__(name: str) -> Any:
    """Returns a function of one tensor."""
    if name not in FLOAT_FUNCTIONS | ROUNDINGS:
        raise AttributeError(f"module 'passhost.topi' has no attribute {name!r}")
    if f"relax.{name}" in signatures():
        return _of_one(name)
    return _named(
        lambda x: elementwise(x, lambda value: intrinsic(name, value)), name, f"Returns `{name}` of each element."
    )


def _reduction(name: str, of: str) -> Callable[..., Tensor]:
    def function(data: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return legalized(name, data, axis=axis, keepdims=keepdims)[0]

    return _named(function, name, f"Returns the {of} of the elements along axes; by default along all.")


sum = _reduction("sum", "sum")
prod = _reduction("prod", "product")
max = _reduction("max", "maximum")
min = _reduction("min", "minimum")

abs = _of_one("abs")
sign = _of_one("sign")
negative = _of_one("negative")
isnan = _of_one("isnan")
isinf = _of_one("isinf")
isfinite = _of_one("isfinite")
bitwise_not = _of_one("bitwise_not")
logical_not = _of_one("logical_not")

add = _of_two("add")
subtract = _of_two("subtract")
multiply = _of_two("multiply")
divide = _of_two("divide")
floor_divide = _of_two("floor_divide")
floor_mod = _of_two("floor_mod")
maximum = _of_two("maximum")
minimum = _of_two("minimum")
power = _of_two("power")
less = _of_two("less")
less_equal = _of_two("less_equal")
greater = _of_two("greater")
greater_equal = _of_two("greater_equal")
equal = _of_two("equal")
not_equal = _of_two("not_equal")
mod = _of_two("mod")
log_add_exp = _of_two("log_add_exp")
left_shift = _of_two("left_shift")
right_shift = _of_two("right_shift")
bitwise_and = _of_two("bitwise_and")
bitwise_or = _of_two("bitwise_or")
bitwise_xor = _of_two("bitwise_xor")
logical_and = _of_two("logical_and")
logical_or = _of_two("logical_or")
logical_xor = _of_two("logical_xor")


def identity(x: Tensor) -> Tensor:
    """Returns each element unchanged."""
    return elementwise(x, lambda value: value)


def cast(x: Any, dtype: str) -> Any:
    """Converts each element to another data type."""
    return legalized("astype", x, dtype=dtype)[0] if isinstance(x, Tensor) else convert(dtype, x)


def clip(x: Tensor, a_min: Any, a_max: Any) -> Tensor:
    """Clamps each element to `a_min` … `a_max`."""
    return legalized("clip", x, a_min, a_max)[0]


def full(shape: Sequence[Any], dtype: str, fill_value: Any) -> Tensor:
    """Returns a tensor of equal elements."""
    value = fill_value if isinstance(fill_value, Expr) else tirx.const(fill_value, dtype)
    return legalized("full", list(shape), of_type(operand(value), dtype), dtype=dtype)[0]


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """Selects each element from one of two tensors; shapes are broadcast."""
    return legalized("where", _truth(condition), *of_one_type(x, y))[0]


def _truth(condition: Tensor) -> Operand:
    """Returns a condition as an operand of booleans. Numbers other than 0 are true."""
    if condition.dtype == "bool":
        return operand(condition)
    return Operand(condition.shape, "bool", lambda *i: condition(*i) != tirx.const(0, condition.dtype))


def reshape(x: Tensor, newshape: Any) -> Tensor:
    """Reshapes a tensor; the elements keep their order. One dimension may be -1, which is inferred."""
    return legalized("reshape", x, list(newshape) if isinstance(newshape, Iterable) else [newshape])[0]


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Permutes the axes, or reverses them by default."""
    return legalized("permute_dims", a, axes=axes)[0]


def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Removes axes of extent 1: the given axes, or all of them. An axis of unknown extent is removed only if given."""
    if axis is None:
        axis = [at for at, dim in enumerate(a.shape) if extent(dim) == 1]
    return legalized("squeeze", a, axis=axis)[0]


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Inserts axes of extent 1."""
    first = axis + a.ndim + 1 if axis < 0 else axis
    [made] = legalized("expand_dims", a, axis=list(range(first, first + num_newaxis)))
    made.name = "T_expand_dims"
    return made


def broadcast_to(data: Tensor, shape: Sequence[Any]) -> Tensor:
    """Repeats the elements along axes of extent 1 and new axes."""
    return legalized("broadcast_to", data, list(shape))[0]


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Concatenates tensors along an axis."""
    return legalized("concat", list(a_tuple), axis=axis)[0]


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Stacks tensors of the same shape along a new axis."""
    return legalized("stack", list(tensors), axis=axis)[0]


def split(ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Splits a tensor along an axis into a number of equal parts, or at these positions."""
    if isinstance(indices_or_sections, int):
        whole = extent(ary.shape[axis])
        if whole is None or whole % indices_or_sections:
            raise ValueError(f"an axis of {ary.shape[axis]} cannot be split into {indices_or_sections} equal parts")
    return legalized("split", ary, indices_or_sections=indices_or_sections, axis=axis)


def tile(a: Tensor, reps: Sequence[int]) -> Tensor:
    """Repeats the whole tensor along its axes."""
    return legalized("tile", a, repeats=reps)[0]


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Repeats each element along an axis."""
    return legalized("repeat", a, repeats=repeats, axis=axis)[0]


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Reverses the elements along an axis."""
    return legalized("flip", a, axis=axis)[0]


def trilu(data: Tensor, k: Any, upper: bool) -> Tensor:
    """Returns the upper or lower triangle of matrices, from the k-th diagonal on; 0 elsewhere."""
    return legalized("triu" if upper else "tril", data, k)[0]


def _call(name: str, *args: Any) -> Any:
    return globals()[name](*args)


_provided.topi = _call
