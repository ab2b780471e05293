"""Tensors and their elements."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from passhost._numpy import is_number
from passhost.ir.expr import Expr, ExprWithOp, Var, as_dim, checked_expr
from passhost.ir.prim import prim_type
from passhost.ir.type import PrimType


def _topi() -> Any:
    """Returns the module of tensor operators, which imports this one."""
    return importlib.import_module("passhost.topi")


def _of_elements(name: str, swapped: bool = False) -> Any:
    """Creates a Python operator on tensors, which applies that of `topi` elementwise."""

    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, Tensor | Expr) and not is_number(other):
            return NotImplemented
        combine = getattr(_topi(), name)
        return combine(other, self) if swapped else combine(self, other)

    return method


class Tensor:
    """A tensor: a placeholder or a computed one. `A[i, j]` is an element, `A + B` the elementwise sum."""

    __add__ = _of_elements("add")
    __radd__ = _of_elements("add", swapped=True)
    __sub__ = _of_elements("subtract")
    __rsub__ = _of_elements("subtract", swapped=True)
    __mul__ = _of_elements("multiply")
    __rmul__ = _of_elements("multiply", swapped=True)
    __truediv__ = _of_elements("divide")
    __rtruediv__ = _of_elements("divide", swapped=True)

    def __init__(
        self, shape: Iterable[Any], dtype: str, name: str, axes: tuple[Var, ...] = (), element: Expr | None = None
    ) -> None:
        """Takes a shape and data type, and the axes and element if it is computed."""
        self.shape: tuple[Any, ...] = tuple(as_dim(dim) for dim in shape)
        self.dtype, self.name, self.axes, self.element = dtype, name, axes, element

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __neg__(self) -> Tensor:
        """Negates each element."""
        made: Tensor = _topi().negative(self)
        return made

    def astype(self, dtype: str) -> Tensor:
        """Converts each element to another data type."""
        made: Tensor = _topi().cast(self, dtype)
        return made

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
    """A reduction over axes, which must be the whole element of a tensor."""

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
        """Ranges from 0 to before the extent."""
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
    """Returns a tensor whose elements a function computes from their indices, or a tuple if it returns one."""
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
        raise TypeError(f"an element is a scalar, not a value of type {expr.ty!r}")
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
