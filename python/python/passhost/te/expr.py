"""Tensors, their elements, and elementwise operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from passhost import tirx
from passhost._numpy import is_number
from passhost.ir.expr import Expr, ExprWithOp, Var, as_dim, checked_expr
from passhost.ir.prim import prim_type
from passhost.ir.type import PrimType


def broadcast(name: str, combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Creates an elementwise operation on two tensors whose shapes are broadcast."""

    def function(lhs: Any, rhs: Any) -> Any:
        if not isinstance(lhs, Tensor) and not isinstance(rhs, Tensor):
            return combine(lhs, rhs)
        if not isinstance(rhs, Tensor):
            return elementwise(lhs, lambda value: combine(value, _number(rhs)), f"T_{name}")
        if not isinstance(lhs, Tensor):
            return elementwise(rhs, lambda value: combine(_number(lhs), value), f"T_{name}")
        shape = _common(lhs.shape, rhs.shape)
        return compute(
            shape, lambda *i: combine(broadcast_at(lhs, shape, i), broadcast_at(rhs, shape, i)), name=f"T_{name}"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of each two elements; shapes are broadcast."
    return function


def _number(value: Any) -> Any:
    """Returns a number with its own type. As in TVM, an operation has the wider type of its operands."""
    wide = isinstance(value, int) and not -(1 << 31) <= value < 1 << 31
    return tirx.const(value, "int64" if wide else None)


def _common(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    longer, shorter = (list(a), list(b)) if len(a) >= len(b) else (list(b), list(a))
    start = len(longer) - len(shorter)
    for at, dim in enumerate(shorter):
        other = longer[start + at]
        if extent(other) == 1:
            longer[start + at] = dim
        elif extent(dim) not in (1, None) and extent(other) not in (extent(dim), None):
            raise ValueError(f"shapes {list(a)} and {list(b)} cannot be broadcast together")
    return longer


add = broadcast("add", lambda a, b: a + b)
subtract = broadcast("subtract", lambda a, b: a - b)
multiply = broadcast("multiply", lambda a, b: a * b)
divide = broadcast("divide", tirx.div)


def _of_elements(combine: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
    """Creates a Python operator that applies a function to the elements of two tensors."""

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, Tensor | Expr) and not is_number(other):
            return NotImplemented
        return combine(other, self) if swapped else combine(self, other)

    return method


class Tensor:
    """A tensor: a placeholder, or computed from other tensors. `A[i, j]` is an element, `A + B` the elementwise sum."""

    __add__ = _of_elements(add)
    __radd__ = _of_elements(add, swapped=True)
    __sub__ = _of_elements(subtract)
    __rsub__ = _of_elements(subtract, swapped=True)
    __mul__ = _of_elements(multiply)
    __rmul__ = _of_elements(multiply, swapped=True)
    __truediv__ = _of_elements(divide)
    __rtruediv__ = _of_elements(divide, swapped=True)

    def __init__(
        self, shape: Iterable[Any], dtype: str, name: str, axes: tuple[Var, ...] = (), element: Expr | None = None
    ) -> None:
        """Takes a shape and data type; for a computed tensor also the axes and the element."""
        self.shape: tuple[Any, ...] = tuple(as_dim(dim) for dim in shape)
        self.dtype, self.name, self.axes, self.element = dtype, name, axes, element

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __neg__(self) -> Tensor:
        """Negates each element."""
        return negative(self)

    def astype(self, dtype: str) -> Tensor:
        """Converts each element to another data type."""
        return cast(self, dtype)

    def __getitem__(self, indices: Any) -> TensorRead:
        """Returns the element at these indices."""
        items = indices if isinstance(indices, tuple | list) else (indices,)
        return TensorRead(self, items)

    def __call__(self, *indices: Any) -> TensorRead:
        """Returns the element at these indices."""
        return TensorRead(self, indices)

    def __repr__(self) -> str:
        """Returns the name and shape."""
        return f"Tensor({self.name}, shape={list(self.shape)}, dtype={self.dtype})"


class TensorRead(ExprWithOp):
    """An element of a tensor."""

    __slots__ = ("indices", "tensor")
    tensor: Tensor
    indices: tuple[Expr, ...]

    def __init__(self, tensor: Tensor, indices: Iterable[Any]) -> None:
        """Takes one index for each dimension."""
        self._tensor = tensor
        self._indices = tuple(as_dim(index) for index in indices)
        if len(self._indices) != tensor.ndim:
            raise ValueError(f"{tensor.name} has {tensor.ndim} dimensions, found {len(self._indices)} indices")
        self._ty = prim_type(tensor.dtype)


class Reduce(ExprWithOp):
    """A reduction over axes. It must be the whole expression of an element."""

    __slots__ = ("axes", "kind", "value")
    kind: str
    value: Expr
    axes: tuple[IterVar, ...]

    def __init__(self, kind: str, value: Any, axis: Any) -> None:
        """Takes a kind (`sum`, `prod`, `max`, `min`), a value and axes."""
        self._kind, self._value = kind, checked_expr(value, "what is reduced")
        self._axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
        if not self._axes or not all(isinstance(one, IterVar) for one in self._axes):
            raise TypeError("the axes of a reduction are made by te.reduce_axis")
        self._ty = self._value.ty


class IterVar(ExprWithOp):
    """An axis of a reduction."""

    __slots__ = ("extent", "var")
    var: Var
    extent: Expr

    def __init__(self, extent: Any, name: str) -> None:
        """Takes the extent; the axis ranges from 0 up to, but excluding, the extent."""
        self._extent = as_dim(extent)
        self._var = Var(name, "int64")
        self._ty = self._var.ty


def placeholder(shape: Iterable[Any], dtype: Any = None, name: str = "placeholder") -> Tensor:
    """Returns a placeholder tensor, which becomes an argument."""
    return Tensor(shape, str(PrimType(dtype or "float32").dtype), name)


def reduce_axis(dom: Any, name: str = "rv", **_options: Any) -> IterVar:
    """Returns an axis to reduce over: `reduce_axis((0, k))`."""
    if isinstance(dom, tuple | list):
        if len(dom) != 2 or dom[0] != 0:
            raise ValueError("an axis of a reduction goes from 0: te.reduce_axis((0, extent))")
        dom = dom[1]
    return IterVar(dom, name)


def compute(
    shape: Iterable[Any],
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Any = None,
    varargs_names: Iterable[str] | None = None,
) -> Any:
    """Returns a tensor of the elements that `fcompute` computes from indices; a tuple if it returns a tuple."""
    dims = [shape] if isinstance(shape, int | Expr) else list(shape)
    axes = tuple(Var(axis, "int64") for axis in _axis_names(fcompute, len(dims), varargs_names))
    element = fcompute(*axes)
    elements = element if isinstance(element, tuple | list) else (element,)
    made = []
    for at, one in enumerate(elements):
        value = _element(one)
        dtype = str(value.ty.dtype)  # type: ignore[attr-defined]
        made.append(Tensor(dims, dtype, name if len(elements) == 1 else f"{name}.v{at}", axes, value))
    return tuple(made) if isinstance(element, tuple | list) else made[0]


def _element(value: Any) -> Expr:
    expr = _as_var(checked_expr(value, "an element"))
    if not isinstance(expr.ty, PrimType):
        raise TypeError(f"an element must be a scalar, not a value of type {expr.ty!r}")
    return expr


def _as_var(expr: Expr) -> Expr:
    return expr.var if isinstance(expr, IterVar) else expr


def _axis_names(fcompute: Callable[..., Any], n: int, names: Iterable[str] | None) -> list[str]:
    if names is not None:
        return list(names)
    found: list[str] = []
    for parameter in inspect.signature(fcompute).parameters.values():
        if parameter.kind == inspect.Parameter.VAR_POSITIONAL:
            found += [f"{parameter.name}{at}" for at in range(n - len(found))]
        elif parameter.default is inspect.Parameter.empty:
            found.append(parameter.name)
    if len(found) != n:
        raise ValueError(f"fcompute do not match dimension, ndim={n}: it takes {len(found)} indices")
    return found


def extent(dim: Any) -> int | None:
    """Returns the value of a constant dimension, or None."""
    value = getattr(dim, "value", dim)
    return value if isinstance(value, int) else None


def elementwise(x: Tensor, element: Callable[[Any], Any], name: str = "compute") -> Tensor:
    """Returns a tensor with a function applied to each element."""
    made: Tensor = compute(x.shape, lambda *i: element(x(*i)), name=name)
    return made


def negative(x: Tensor) -> Tensor:
    """Returns each element negated."""
    return elementwise(x, lambda value: -value)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Converts each element to another data type."""
    return elementwise(x, lambda value: value.astype(dtype), "T_cast")


def broadcast_at(x: Tensor, shape: Sequence[Any], indices: Sequence[Any]) -> Any:
    """Returns the element of a tensor that is broadcast to a shape."""
    new = len(shape) - x.ndim
    own = zip(x.shape, shape[new:], indices[new:], strict=True)
    return x(*(0 if extent(dim) == 1 and extent(wanted) != 1 else index for dim, wanted, index in own))
