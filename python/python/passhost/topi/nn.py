"""Neural network operators as tensor expressions, as in `tvm.topi.nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from passhost import te, tirx
from passhost._tensor import numpy_dtype
from passhost.te import Tensor
from passhost.te.expr import extent
from passhost.topi._shapes import normal_axis

__all__ = ["conv2d", "dense", "global_pool", "leaky_relu", "matmul", "pad", "pool2d", "relu", "softmax", "upsampling"]


def relu(x: Tensor) -> Tensor:
    """Returns the maximum of each element and 0."""
    made: Tensor = te.compute(x.shape, lambda *i: te.max(x(*i), tirx.const(0, x.dtype)), name="compute")
    return made


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Multiplies elements below 0 by `alpha`."""
    zero, slope = tirx.const(0, x.dtype), tirx.const(alpha, x.dtype)
    made: Tensor = te.compute(x.shape, lambda *i: te.select(zero < x(*i), x(*i), x(*i) * slope), name="compute")
    return made


def _reduced(x: Tensor, at: int, kind: Any, element: Any, name: str) -> Tensor:
    """Reduces a tensor over one axis."""
    k = te.reduce_axis((0, x.shape[at]), name="k")
    dims = [*x.shape[:at], *x.shape[at + 1 :]]
    made: Tensor = te.compute(dims, lambda *i: kind(element(*i[:at], k, *i[at:]), axis=k), name=name)
    return made


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Returns the exponential of each element divided by the sum of the exponentials along `axis`."""
    at = normal_axis(axis, x.ndim)

    def without(i: Sequence[Any]) -> list[Any]:
        return [*i[:at], *i[at + 1 :]]

    largest = _reduced(x, at, te.max, x, "T_softmax_maxelem")
    powers = te.compute(x.shape, lambda *i: te.exp(x(*i) - largest(*without(i))), name="T_softmax_exp")
    sums = _reduced(powers, at, te.sum, powers, "T_softmax_expsum")
    made: Tensor = te.compute(x.shape, lambda *i: powers(*i) / sums(*without(i)), name="T_softmax_norm")
    return made


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """Returns the product of two matrices, plus a bias for each column. Either matrix may be transposed."""
    rows, inner = reversed(tensor_a.shape) if transpose_a else tensor_a.shape
    columns = tensor_b.shape[0 if transpose_b else 1]
    dtype = out_dtype or tensor_a.dtype
    k = te.reduce_axis((0, inner), name="k")

    def element(i: Any, j: Any) -> Any:
        a = tensor_a(k, i) if transpose_a else tensor_a(i, k)
        b = tensor_b(j, k) if transpose_b else tensor_b(k, j)
        return te.sum(a.astype(dtype) * b.astype(dtype), axis=k)

    made: Tensor = te.compute([rows, columns], element, name="T_matmul")
    if bias is None:
        return made
    added: Tensor = te.compute([rows, columns], lambda i, j: made(i, j) + bias(j).astype(dtype), name="T_add")
    return added


def dense(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None, **_options: Any
) -> Tensor:
    """Returns the product of a matrix and a transposed matrix, plus a bias for each column."""
    return matmul(data, weight, bias, out_dtype, False, True)


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
) -> Tensor:
    """Pads a tensor with a value before and after each axis."""
    after = list(pad_after) if pad_after is not None else list(pad_before)
    if not len(pad_before) == len(after) == data.ndim:
        raise ValueError(f"a tensor of {data.ndim} dimensions is padded along as many axes")
    value = pad_value if isinstance(pad_value, tirx.Expr) else tirx.const(pad_value, data.dtype)
    sides = list(zip(data.shape, pad_before, after, strict=True))

    def element(*i: Any) -> Any:
        at, inside = [], []
        for index, (dim, before, behind) in zip(i, sides, strict=True):
            at.append(index - before)
            if extent(before) != 0:
                inside.append(before <= index)
            if extent(behind) != 0:
                inside.append(index < dim + before)
        return tirx.if_then_else(tirx.all(*inside), data(*at), value) if inside else data(*at)

    made: Tensor = te.compute([dim + before + behind for dim, before, behind in sides], element, name=name)
    return made


def _two(value: Any) -> tuple[int, int]:
    """Expands a number to both axes of an image."""
    items = list(value) if isinstance(value, tuple | list) else [value]
    first, last = items[0], items[-1]
    return int(first), int(last)


def _sides(padding: Any) -> tuple[int, int, int, int]:
    """Returns the padding as top, left, bottom, right."""
    items = [int(item) for item in padding] if isinstance(padding, tuple | list) else [int(padding)]
    if len(items) == 4:
        return items[0], items[1], items[2], items[3]
    top, left = items[0], items[-1]
    return top, left, top, left


def _windows(size: Any, count: Any, apart: int, step: int) -> Any:
    """Returns the number of windows along an axis: each has `count` elements at distance `apart`, and windows start
    every `step` elements."""
    starts: Any = tirx.floordiv(size - (count - 1) * apart - 1, step)
    return starts + 1


def _padded(x: Tensor, sides: tuple[int, int, int, int], value: Any) -> Tensor:
    top, left, bottom, right = sides
    if not any(sides):
        return x
    return pad(x, [0, 0, top, left], [0, 0, bottom, right], value, "pad_temp")


def conv2d(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """Returns a convolution of images, in the layouts NCHW and OIHW."""
    if data_layout != "NCHW" or kernel_layout not in ("", "OIHW"):
        raise ValueError(f"conv2d has the layouts NCHW and OIHW, not {data_layout} and {kernel_layout}")
    (down, across), (apart, aside) = _two(strides), _two(dilation)
    sides, dtype = _sides(padding), out_dtype or data.dtype
    n, channels, height, width = data.shape
    out, _, rows, columns = kernel.shape
    top, left, bottom, right = sides
    padded = pad(data, [0, 0, top, left], [0, 0, bottom, right], 0, "pad_temp")
    high = _windows(height + (top + bottom), rows, apart, down)
    wide = _windows(width + (left + right), columns, aside, across)
    rc, ry, rx = (
        te.reduce_axis((0, dim), name=name)
        for dim, name in zip((channels, rows, columns), ("rc", "ry", "rx"), strict=True)
    )

    def element(nn: Any, ff: Any, yy: Any, xx: Any) -> Any:
        at = padded(nn, rc, yy * down + ry.var * apart, xx * across + rx.var * aside)
        return te.sum(at.astype(dtype) * kernel(ff, rc, ry, rx).astype(dtype), axis=[rc, ry, rx])

    made: Tensor = te.compute([n, out, high, wide], element, name="conv2d_nchw")
    return made


def pool2d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Returns the maximum or the mean of each window of an image in the layout NCHW."""
    if layout != "NCHW" or pool_type not in ("max", "avg"):
        raise ValueError(f"pool2d has the layout NCHW and the types max and avg, not {layout} and {pool_type}")
    (rows, columns), (down, across), (apart, aside) = _two(kernel), _two(stride), _two(dilation)
    top, left, bottom, right = _sides(padding)
    if ceil_mode:
        bottom, right = bottom + down - 1, right + across - 1
    n, channels, height, width = data.shape
    high = _windows(height + (top + bottom), rows, apart, down)
    wide = _windows(width + (left + right), columns, aside, across)
    rv0, rv1 = te.reduce_axis((0, rows), name="rv0"), te.reduce_axis((0, columns), name="rv1")
    lowest = tirx.const(_lowest(data.dtype), data.dtype) if pool_type == "max" else 0
    padded = _padded(data, (top, left, bottom, right), lowest)

    def window(nn: Any, c: Any, y: Any, x: Any) -> Any:
        return padded(nn, c, y * down + rv0.var * apart, x * across + rv1.var * aside)

    dims = [n, channels, high, wide]
    if pool_type == "max":
        made: Tensor = te.compute(dims, lambda *i: te.max(window(*i), axis=[rv0, rv1]), name="pool_max")
        return made
    sums = te.compute(dims, lambda *i: te.sum(window(*i), axis=[rv0, rv1]), name="pool_sum")
    whole = tirx.const(rows * columns, data.dtype)

    def mean(nn: Any, c: Any, y: Any, x: Any) -> Any:
        if count_include_pad and not ceil_mode:
            return sums(nn, c, y, x) / whole
        down_in = _inside(y * down - top, rows, apart, height)
        across_in = _inside(x * across - left, columns, aside, width)
        inside: Any = te.max(down_in * across_in, tirx.const(1, "int64"))
        return sums(nn, c, y, x) / inside.astype(data.dtype)

    averaged: Tensor = te.compute(dims, mean, name="pool_avg")
    return averaged


def _inside(start: Any, count: int, step: int, size: Any) -> Any:
    """Returns how many of `count` positions at distance `step` are at least 0 and less than `size`."""
    last: Any = te.min(count - 1, tirx.floordiv(size - 1 - start, step))
    first: Any = te.max(0, tirx.floordiv(step - 1 - start, step))
    return last - first + 1


def _lowest(dtype: str) -> int | float:
    import numpy as np

    if dtype.startswith(("float", "bfloat")):
        return -3.3895313892515355e38 if dtype == "bfloat16" else float(np.finfo(numpy_dtype(dtype)).min)
    return int(np.iinfo(dtype).min)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Returns the maximum or the mean of each image."""
    _, _, height, width = data.shape
    rows, columns = extent(height), extent(width)
    if rows is None or columns is None:
        raise ValueError("global_pool takes images of a known size")
    return pool2d(data, (rows, columns), 1, 1, 0, pool_type, False, layout)


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Any = None,
) -> Tensor:
    """Enlarges images by nearest-neighbor interpolation."""
    if layout != "NCHW" or method != "nearest_neighbor" or align_corners or output_shape is not None:
        raise ValueError("upsampling has the layout NCHW and the method nearest_neighbor")
    if scale_h != int(scale_h) or scale_w != int(scale_w):
        raise ValueError(f"upsampling has whole scales, not {scale_h} and {scale_w}")
    down, across = int(scale_h), int(scale_w)
    n, channels, height, width = data.shape
    made: Tensor = te.compute(
        [n, channels, height * down, width * across],
        lambda nn, c, y, x: data(nn, c, tirx.floordiv(y, down), tirx.floordiv(x, across)),
        name="resize",
    )
    return made
