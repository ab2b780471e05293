"""Tensors of the function being exported, and operators on them.

Each operator binds a call of the Relax operator with its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from passhost import tirx
from passhost._numpy import np
from passhost.ir.expr import Expr, Tuple
from passhost.relax import op as relax_op
from passhost.relax.block_builder import BlockBuilder
from passhost.relax.expr import ShapeExpr, const
from passhost.relax.type import TensorType

Dim = int | Expr


class Tensor:
    """A tensor of the function being exported."""

    def __init__(self, *, _expr: Expr | None) -> None:
        """Wraps an expression."""
        self._value = _expr

    @property
    def _expr(self) -> Expr:
        if self._value is None:
            raise ValueError("a parameter has a value only while its module is exported; call Module.export_tvm")
        return self._value

    @property
    def _type(self) -> TensorType:
        ty = self._expr.ty
        if not isinstance(ty, TensorType):
            raise TypeError(f"a tensor is expected, not a value of type {ty!r}")
        return ty

    @property
    def shape(self) -> list[Dim]:
        """The dimensions; integers if known."""
        shape = self._type.shape
        if not isinstance(shape, ShapeExpr):
            raise ValueError(f"the shape of a tensor of type {self._type!r} is not known")
        return [int(dim) if isinstance(dim, tirx.IntImm) else dim for dim in shape.values]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> str:
        """The data type."""
        return str(self._type.dtype)

    def __repr__(self) -> str:
        """Returns the shape and the data type."""
        return f'Tensor({self.shape}, "{self.dtype}")'

    def _binary(self, name: str, other: Any, swapped: bool = False) -> Tensor:
        return _binary(name, other, self) if swapped else _binary(name, self, other)

    def __add__(self, other: Any) -> Tensor:
        """Returns the sum."""
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Tensor:
        """Returns the sum."""
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Any) -> Tensor:
        """Returns the difference."""
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Tensor:
        """Returns the difference."""
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Tensor:
        """Returns the product."""
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Tensor:
        """Returns the product."""
        return self._binary("multiply", other, swapped=True)

    def __truediv__(self, other: Any) -> Tensor:
        """Returns the quotient."""
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Tensor:
        """Returns the quotient."""
        return self._binary("divide", other, swapped=True)

    def __matmul__(self, other: Tensor) -> Tensor:
        """Returns the matrix product."""
        return matmul(self, other)

    def __neg__(self) -> Tensor:
        """Returns the negated elements."""
        return negative(self)

    def astype(self, dtype: str) -> Tensor:
        """Converts to another data type."""
        return astype(self, dtype)

    def reshape(self, *shape: Dim) -> Tensor:
        """Returns the elements in another shape."""
        return reshape(self, shape)

    def permute_dims(self, *axes: int) -> Tensor:
        """Permutes the dimensions; reverses them without arguments."""
        return permute_dims(self, axes or None)


def wrap_nested(expr: Expr, name: str) -> Any:
    """Binds an expression, and returns it as a tensor or a tuple of tensors."""
    builder = BlockBuilder.current()
    if builder is None:
        raise RuntimeError("operators are called while a module is exported; call Module.export_tvm")
    return _wrapped(builder.emit(expr, name))


def _wrapped(value: Expr) -> Any:
    fields = getattr(value.ty, "fields", None)
    if fields is None:
        return Tensor(_expr=value)
    builder = BlockBuilder.current()
    assert builder is not None
    return tuple(_wrapped(builder.emit(value[at])) for at in range(len(fields)))


def _binary(name: str, a: Any, b: Any) -> Tensor:
    like = a if isinstance(a, Tensor) else b
    if not isinstance(like, Tensor):
        raise TypeError(f"{name} takes at least one tensor")
    operands = [x._expr if isinstance(x, Tensor) else const(np.array(x), like.dtype) for x in (a, b)]
    return _call(getattr(relax_op, name)(*operands), name)


def _call(expr: Expr, name: str) -> Tensor:
    made: Tensor = wrap_nested(expr, name)
    return made


def add(a: Any, b: Any) -> Tensor:
    """Returns the sum."""
    return _binary("add", a, b)


def subtract(a: Any, b: Any) -> Tensor:
    """Returns the difference."""
    return _binary("subtract", a, b)


def multiply(a: Any, b: Any) -> Tensor:
    """Returns the product."""
    return _binary("multiply", a, b)


def divide(a: Any, b: Any) -> Tensor:
    """Returns the quotient."""
    return _binary("divide", a, b)


def maximum(a: Any, b: Any) -> Tensor:
    """Returns the elementwise maximum."""
    return _binary("maximum", a, b)


def minimum(a: Any, b: Any) -> Tensor:
    """Returns the elementwise minimum."""
    return _binary("minimum", a, b)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """Returns the matrix product."""
    return _call(relax_op.matmul(a._expr, b._expr, out_dtype=out_dtype), name)


def negative(x: Tensor, name: str = "neg") -> Tensor:
    """Returns the negated elements."""
    return _call(relax_op.negative(x._expr), name)


def exp(x: Tensor, name: str = "exp") -> Tensor:
    """Returns the exponential function."""
    return _call(relax_op.exp(x._expr), name)


def sqrt(x: Tensor, name: str = "sqrt") -> Tensor:
    """Returns the square root."""
    return _call(relax_op.sqrt(x._expr), name)


def sigmoid(x: Tensor, name: str = "sigmoid") -> Tensor:
    """Returns the logistic function."""
    return _call(relax_op.sigmoid(x._expr), name)


def tanh(x: Tensor, name: str = "tanh") -> Tensor:
    """Returns the hyperbolic tangent."""
    return _call(relax_op.tanh(x._expr), name)


def relu(x: Tensor, name: str = "relu") -> Tensor:
    """Returns the maximum of each element and 0."""
    return _call(relax_op.nn.relu(x._expr), name)


def silu(x: Tensor, name: str = "silu") -> Tensor:
    """Returns each element times its logistic function."""
    return _call(relax_op.nn.silu(x._expr), name)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """Returns the Gaussian error linear unit; `approximate="tanh"` selects its approximation."""
    if approximate not in (None, "tanh"):
        raise ValueError(f"approximate must be None or 'tanh', not {approximate!r}")
    return _call((relax_op.nn.gelu_tanh if approximate else relax_op.nn.gelu)(x._expr), name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """Returns exponentials that are scaled to sum to 1 along an axis."""
    return _call(relax_op.nn.softmax(x._expr, axis=axis), name)


def sum(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False, name: str = "sum") -> Tensor:
    """Returns the sum along axes."""
    return _call(relax_op.sum(x._expr, axis=axis, keepdims=keepdims), name)


def reshape(x: Tensor, shape: Sequence[Dim], name: str = "reshape") -> Tensor:
    """Returns the elements in another shape."""
    return _call(relax_op.reshape(x._expr, list(shape)), name)


def broadcast_to(x: Tensor, shape: Sequence[Dim], name: str = "broadcast_to") -> Tensor:
    """Broadcasts the elements to a shape."""
    return _call(relax_op.broadcast_to(x._expr, list(shape)), name)


def permute_dims(x: Tensor, axes: Sequence[int] | None = None, name: str = "permute_dims") -> Tensor:
    """Permutes the dimensions; reverses them without `axes`."""
    return _call(relax_op.permute_dims(x._expr, axes=None if axes is None else list(axes)), name)


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """Inserts a dimension of extent 1."""
    return _call(relax_op.expand_dims(x._expr, dim), name)


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    """Removes a dimension of extent 1."""
    return _call(relax_op.squeeze(x._expr, axis), name)


def concat(x: Sequence[Tensor], dim: int, name: str = "concat") -> Tensor:
    """Concatenates tensors along a dimension."""
    return _call(relax_op.concat(Tuple([part._expr for part in x]), axis=dim), name)


def take(x: Tensor, indices: Tensor, axis: int | None = None, mode: str = "fast", name: str = "take") -> Tensor:
    """Returns the elements at indices along an axis."""
    return _call(relax_op.take(x._expr, indices._expr, axis=axis, mode=mode), name)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """Converts to another data type."""
    return x if x.dtype == dtype else _call(relax_op.astype(x._expr, dtype), name)


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """Normalizes the last dimensions to mean 0 and variance 1, then scales and shifts them."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    scale = const(np.ones(shape), x.dtype) if weight is None else weight._expr
    move = const(np.zeros(shape), x.dtype) if bias is None else bias._expr
    axes = [at - len(shape) for at in range(len(shape))]
    return _call(relax_op.nn.layer_norm(x._expr, scale, move, axes=axes, epsilon=eps), name)


def rms_norm(
    x: Tensor, weight: Tensor, axes: int | Sequence[int], epsilon: float = 1e-5, name: str = "rms_norm"
) -> Tensor:
    """Divides by the root mean square along axes, then scales."""
    axes = [axes] if isinstance(axes, int) else list(axes)
    return _call(relax_op.nn.rms_norm(x._expr, weight._expr, axes=axes, epsilon=epsilon), name)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    name: str = "conv2d",
) -> Tensor:
    """Returns a two-dimensional convolution, plus a bias for each output channel."""
    options = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
    made = relax_op.nn.conv2d(x._expr, weight._expr, data_layout=data_layout, **options)
    if bias is None:
        return _call(made, name)
    dims = [bias.shape[0] if axis == "C" else 1 for axis in data_layout]
    return _call(relax_op.add(wrap_nested(made, "")._expr, relax_op.reshape(bias._expr, dims)), name)
