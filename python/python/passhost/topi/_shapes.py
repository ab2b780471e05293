"""Operators that rearrange elements, such as reshape, concatenate and split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from passhost import te, tirx
from passhost.ir.prim import convert, folded
from passhost.te import Tensor
from passhost.te.expr import broadcast_at, extent


def product(dims: Iterable[Any]) -> Any:
    """Returns the product of dimensions, as an integer if all are constant."""
    made: Any = 1
    for dim in dims:
        known = extent(dim)
        made = made * (dim if known is None else known)
    return made


def normal_axis(axis: int, ndim: int) -> int:
    """Normalizes an axis, which may count from the end."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is none of a tensor of {ndim} dimensions")
    return axis % ndim


def _plain(dim: Any) -> Any:
    known = extent(dim)
    return dim if known is None else known


def _at_row(position: Any, dims: Sequence[Any]) -> list[Any]:
    """Returns the indices of the element at a position in row-major order."""
    indices: list[Any] = []
    for dim in reversed(dims[1:]):
        indices.append(tirx.floormod(position, _plain(dim)))
        position = tirx.floordiv(position, _plain(dim))
    return [*([position] if dims else []), *reversed(indices)]


def _row(indices: Sequence[Any], dims: Sequence[Any]) -> Any:
    """Returns the position of an element in row-major order."""
    position: Any = 0
    for index, dim in zip(indices, dims, strict=True):
        position = position * _plain(dim) + index
    return position


def reshape(x: Tensor, newshape: Sequence[Any]) -> Tensor:
    """Reshapes a tensor; the elements keep their order. One dimension may be -1, which is inferred."""
    dims = list(newshape) if isinstance(newshape, Iterable) else [newshape]
    unknown = [at for at, dim in enumerate(dims) if extent(dim) == -1]
    before = product(x.shape)
    if len(unknown) > 1:
        raise ValueError(f"at most one dimension of {dims} can be -1")
    if unknown:
        rest = product(dim for at, dim in enumerate(dims) if at != unknown[0])
        dims[unknown[0]] = before // rest if isinstance(before, int) else folded(tirx.floordiv(before, rest))
    after = product(dims)
    if isinstance(before, int) and isinstance(after, int) and before != after:
        raise ValueError(f"a tensor of shape {list(x.shape)} cannot have the shape {dims}")
    made: Tensor = te.compute(dims, lambda *i: x(*_at_row(_row(i, dims), x.shape)), name="T_reshape")
    return made


def flatten(x: Tensor) -> Tensor:
    """Merges all axes except the first."""
    return reshape(x, [x.shape[0], product(x.shape[1:])])


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Inserts axes of extent 1."""
    at = normal_axis(axis, a.ndim + 1)
    dims = [*a.shape[:at], *[1] * num_newaxis, *a.shape[at:]]
    made: Tensor = te.compute(dims, lambda *i: a(*i[:at], *i[at + num_newaxis :]), name="T_expand_dims")
    return made


def broadcast_to(data: Tensor, shape: Sequence[Any]) -> Tensor:
    """Repeats the elements along axes of extent 1 and new axes."""
    new = len(shape) - data.ndim
    for dim, wanted in zip(data.shape, list(shape)[new:], strict=True) if new >= 0 else [(0, 1)]:
        if extent(dim) not in (1, extent(wanted)):
            raise ValueError(f"a tensor of shape {list(data.shape)} cannot be broadcast to {list(shape)}")

    made: Tensor = te.compute(shape, lambda *i: broadcast_at(data, shape, i), name="T_broadcast_to")
    return made


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Concatenates tensors along an axis."""
    tensors = list(a_tuple)
    if not tensors:
        raise ValueError("concatenate needs at least one tensor")
    at = normal_axis(axis, tensors[0].ndim)
    starts: list[Any] = [0]
    for tensor in tensors:
        if tensor.ndim != tensors[0].ndim:
            raise ValueError(f"tensors of {tensors[0].ndim} and {tensor.ndim} dimensions cannot be concatenated")
        starts.append(_plain(tensor.shape[at]) + starts[-1])
    dims = [*tensors[0].shape[:at], starts[-1], *tensors[0].shape[at + 1 :]]

    def element(*i: Any) -> Any:
        made: Any = tensors[0](*i)
        for tensor, start in zip(tensors[1:], starts[1:], strict=False):
            made = tirx.if_then_else(start <= i[at], tensor(*i[:at], i[at] - start, *i[at + 1 :]), made)
        return made

    made: Tensor = te.compute(dims, element, name="T_concat")
    return made


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Stacks tensors of the same shape along a new axis."""
    at = normal_axis(axis, tensors[0].ndim + 1)
    return concatenate([expand_dims(tensor, at) for tensor in tensors], at)


def split(ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Splits a tensor along an axis into a number of equal parts, or at these positions."""
    at = normal_axis(axis, ary.ndim)
    whole = extent(ary.shape[at])
    if isinstance(indices_or_sections, int):
        if whole is None or whole % indices_or_sections:
            raise ValueError(f"an axis of {ary.shape[at]} has no {indices_or_sections} equal parts")
        step = whole // indices_or_sections
        starts = [step * part for part in range(indices_or_sections)]
    else:
        starts = [0, *(cast(int, extent(start)) for start in indices_or_sections)]
    ends = [*starts[1:], _plain(ary.shape[at])]

    def part(start: int, end: Any) -> Tensor:
        dims = [*ary.shape[:at], end - start, *ary.shape[at + 1 :]]
        shifted = lambda *i: ary(*i[:at], i[at] + start, *i[at + 1 :])  # noqa: E731
        made: Tensor = te.compute(dims, shifted, name="T_split_sections")
        return made

    return [part(start, end) for start, end in zip(starts, ends, strict=True)]


def tile(a: Tensor, reps: Sequence[int]) -> Tensor:
    """Repeats the whole tensor along its axes."""
    n = max(a.ndim, len(reps))
    dims, times = [1] * (n - a.ndim) + list(a.shape), [1] * (n - len(reps)) + list(reps)

    def element(*i: Any) -> Any:
        own = list(zip(i, dims, strict=True))[n - a.ndim :]
        return a(*(0 if extent(dim) == 1 else tirx.floormod(index, _plain(dim)) for index, dim in own))

    made: Tensor = te.compute([_plain(d) * t for d, t in zip(dims, times, strict=True)], element, name="T_tile")
    return made


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Repeats each element along an axis."""
    at = normal_axis(axis, a.ndim)
    dims = [*a.shape[:at], _plain(a.shape[at]) * repeats, *a.shape[at + 1 :]]
    made: Tensor = te.compute(dims, lambda *i: a(*i[:at], tirx.floordiv(i[at], repeats), *i[at + 1 :]), name="T_repeat")
    return made


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Reverses the elements along an axis."""
    at = normal_axis(axis, a.ndim)
    last = _plain(a.shape[at]) - 1
    made: Tensor = te.compute(a.shape, lambda *i: a(*i[:at], last - i[at], *i[at + 1 :]), name="T_reverse_sequence")
    return made


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Selects each element from one of two tensors of the same shape."""
    made: Tensor = te.compute(
        x.shape, lambda *i: te.select(_truth(condition, condition(*i)), x(*i), y(*i)), name="T_where"
    )
    return made


def _truth(of: Tensor, value: Any) -> Any:
    return value if of.dtype == "bool" else value != tirx.const(0, of.dtype)


def trilu(data: Tensor, k: Any, upper: bool) -> Tensor:
    """Returns the upper or lower triangle of matrices, from the k-th diagonal on; 0 elsewhere."""
    zero = tirx.const(0, data.dtype)

    def element(*i: Any) -> Any:
        row, column = i[-2], i[-1]
        diagonal = column - (convert("int64", k) if isinstance(k, tirx.Expr) else k)
        kept = row <= diagonal if upper else row >= diagonal
        return te.select(kept, data(*i), zero)

    made: Tensor = te.compute(data.shape, element, name="trilu")
    return made
