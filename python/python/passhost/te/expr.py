"""Tensors, their elements, and elementwise operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from passhost import _provided
from passhost._numpy import is_number
from passhost.ir.expr import Expr, ExprWithOp, Var, as_dim, checked_expr
from passhost.ir.prim import prim_type
from passhost.ir.type import PrimType


def _operator(name: str, swapped: bool = False) -> Any:
    """Creates a Python operator that applies a function of `topi` to two tensors."""

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, Tensor | Expr) and not is_number(other):
            return NotImplemented
        return _provided.topi(name, *((other, self) if swapped else (self, other)))

    return method


class Tensor:
    """A tensor: a placeholder, or computed from other tensors. `A[i, j]` is an element, `A + B` the elementwise sum."""

    __add__ = _operator("add")
    __radd__ = _operator("add", swapped=True)
    __sub__ = _operator("subtract")
    __rsub__ = _operator("subtract", swapped=True)
    __mul__ = _operator("multiply")
    __rmul__ = _operator("multiply", swapped=True)
    __truediv__ = _operator("divide")
    __rtruediv__ = _operator("divide", swapped=True)

    def __init__(
        self, shape: Iterable[Any], dtype: str, name: str, axes: tuple[Var, ...] = (), element: Expr | None = None
    ) -> None:
        """Creates a tensor from a shape and data type; a computed tensor also needs the axes and the element."""
        self.shape: tuple[Any, ...] = tuple(as_dim(dim) for dim in shape)
        self.dtype, self.name, self.axes, self.element = dtype, name, axes, element
        self.attrs: dict[str, Any] = {}

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __neg__(self) -> Any:
        """Negates each element."""
        return _provided.topi("negative", self)

    def astype(self, dtype: str) -> Any:
        """Converts each element to another data type."""
        return _provided.topi("cast", self, dtype)

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
        """Creates an element, given one index for each dimension."""
        self._tensor = tensor
        self._indices = tuple(as_dim(index) for index in indices)
        if len(self._indices) != tensor.ndim:
            raise ValueError(f"{tensor.name} has {tensor.ndim} dimensions, found {len(self._indices)} indices")
        self._ty = prim_type(tensor.dtype)


class Reduce(ExprWithOp):
    """A reduction over axes. It must be the whole expression of an element."""

    __slots__ = ("axes", "kind", "start", "value")
    kind: str
    value: Expr
    axes: tuple[IterVar, ...]
    start: Expr | None
    """The start value of a maximum or minimum, if it is not the least or greatest finite value."""

    def __init__(self, kind: str, value: Any, axis: Any, start: Expr | None = None) -> None:
        """Creates a reduction from a kind (`sum`, `prod`, `max`, `min`), a value and axes."""
        self._kind, self._value, self._start = kind, checked_expr(value, "what is reduced"), start
        self._axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
        if not self._axes or not all(isinstance(one, IterVar) for one in self._axes):
            raise TypeError("the axes of a reduction are made by te.reduce_axis")
        self._ty = self._value.ty


class Pair(ExprWithOp):
    """Two values that are computed together over axes; each step uses the previous values of both."""

    __slots__ = ("axes", "current", "next", "start")
    current: tuple[Var, Var]
    start: tuple[Expr, Expr]
    next: tuple[Expr, Expr]
    axes: tuple[IterVar, ...]

    def __init__(self, current: Any, start: Any, next: Any, axes: Iterable[IterVar]) -> None:
        """Creates a pair from variables for the previous values, the start values, the next values, and the axes."""
        self._current, self._start, self._next, self._axes = tuple(current), tuple(start), tuple(next), tuple(axes)
        self._ty = self._current[0].ty


class PairItem(ExprWithOp):
    """One value of a pair. It must be the whole expression of an element."""

    __slots__ = ("index", "of")
    of: Pair
    index: int

    def __init__(self, of: Pair, index: int) -> None:
        """Creates the value of the pair with number 0 or 1."""
        self._of, self._index = of, index
        self._ty = of.current[index].ty


class IterVar(ExprWithOp):
    """An axis of a reduction."""

    __slots__ = ("extent", "var")
    var: Var
    extent: Expr

    def __init__(self, extent: Any, name: str) -> None:
        """Creates an axis from the extent; the axis ranges from 0 up to, but excluding, the extent."""
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
    """Returns a tensor of the elements that `fcompute` computes from indices; a tuple if it returns a tuple.

    `attrs` are the annotations of its block.
    """
    dims = [shape] if isinstance(shape, int | Expr) else list(shape)
    axes = tuple(Var(axis, "int64") for axis in _axis_names(fcompute, len(dims), varargs_names))
    element = fcompute(*axes)
    elements = element if isinstance(element, tuple | list) else (element,)
    made = []
    for at, one in enumerate(elements):
        value = _element(one)
        dtype = str(value.ty.dtype)  # type: ignore[attr-defined]
        made.append(Tensor(dims, dtype, name if len(elements) == 1 else f"{name}.v{at}", axes, value))
        made[-1].attrs = {key: note for key, note in (attrs or {}).items() if key != "layout_free_placeholders"}
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
