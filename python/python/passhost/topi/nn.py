"""Neural network operators as tensor expressions, as in `tvm.topi.nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from passhost import _provided, te, tirx
from passhost.te import Tensor
from passhost.te.expr import extent
from passhost.topi._host import Operand, legalized, operand

__all__ = [
    "conv2d",
    "dense",
    "flatten",
    "global_pool",
    "leaky_relu",
    "log_softmax",
    "matmul",
    "pad",
    "pool2d",
    "prelu",
    "relu",
    "softmax",
    "softplus",
    "upsampling",
]


def relu(x: Tensor) -> Tensor:
    """Returns the maximum of each element and 0."""
    return legalized("nn.relu", x)[0]


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Multiplies elements below 0 by `alpha`."""
    return legalized("nn.leakyrelu", x, alpha=alpha)[0]


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Returns the exponential of each element divided by the sum of the exponentials along `axis`."""
    return legalized("nn.softmax", x, axis=axis)[0]


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Returns the logarithm of `softmax`."""
    return legalized("nn.log_softmax", x, axis=axis)[0]


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Returns `log(1 + exp(beta * x)) / beta` for each element, or the element if `beta * x` exceeds the threshold."""
    return legalized("nn.softplus", x, beta=beta, threshold=threshold)[0]


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Multiplies elements below 0 by the slope of their index on `axis`."""
    return legalized("nn.prelu", x, slope, axis=axis)[0]


def flatten(x: Tensor) -> Tensor:
    """Merges all axes except the first."""
    return _renamed(legalized("nn.batch_flatten", x)[0], "compute")


def _renamed(tensor: Tensor, name: str) -> Tensor:
    tensor.name = name
    return tensor


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """Returns the product of two matrices, plus a bias for each column. Either matrix may be transposed."""
    sides = [_matrix(tensor_a, transpose_a), _matrix(tensor_b, transpose_b)]
    [made] = legalized("matmul", *sides, out_dtype=out_dtype or tensor_a.dtype)
    _renamed(made, f"T_matmul_{'NT'[transpose_a]}{'NT'[transpose_b]}")
    return made if bias is None else _provided.topi("add", made, _provided.topi("cast", bias, made.dtype))


def _matrix(tensor: Tensor, transposed: bool) -> Operand:
    if tensor.ndim != 2:
        raise ValueError(f"matmul takes matrices, not a tensor of {tensor.ndim} dimensions")
    if not transposed:
        return operand(tensor)
    return Operand(tensor.shape[::-1], tensor.dtype, lambda i, j: tensor(j, i))


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
        raise ValueError(f"the widths must cover all {data.ndim} dimensions")
    widths = [extent(width) for pair in zip(pad_before, after, strict=True) for width in pair]
    if None in widths or isinstance(pad_value, tirx.Expr) or pad_value != float(pad_value):
        return _padded(data, list(zip(data.shape, pad_before, after, strict=True)), pad_value, name)
    return _renamed(legalized("nn.pad", data, pad_width=widths, pad_value=float(pad_value))[0], name)


def _padded(data: Tensor, sides: Sequence[tuple[Any, Any, Any]], pad_value: Any, name: str) -> Tensor:
    """Pads a tensor whose widths are symbolic, or whose value is an expression: `R.nn.pad` takes numbers."""
    value = pad_value if isinstance(pad_value, tirx.Expr) else tirx.const(pad_value, data.dtype)

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
    """Returns a convolution of images."""
    [made] = legalized(
        "nn.conv2d",
        data,
        kernel,
        strides=strides,
        padding=padding,
        dilation=dilation,
        data_layout=data_layout,
        kernel_layout=kernel_layout or {"NCHW": "OIHW", "NHWC": "HWIO"}.get(data_layout, "OIHW"),
        out_dtype=out_dtype or data.dtype,
    )
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
    """Returns the maximum or the mean of each window of an image."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"pool2d: the type must be max or avg, found {pool_type}")
    [made] = legalized(
        f"nn.{pool_type}_pool2d",
        data,
        pool_size=kernel,
        strides=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        layout=layout,
    )
    return made


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Returns the maximum or the mean of each image."""
    if pool_type == "avg":
        return legalized("nn.adaptive_avg_pool2d", data, output_size=(1, 1), layout=layout)[0]
    sizes = [extent(data.shape[layout.index(axis)]) for axis in "HW"]
    if None in sizes:
        raise ValueError("global_pool: the maximum needs images of a known size")
    made = _renamed(pool2d(data, sizes, sizes, 1, 0, pool_type, False, layout), "adaptive_pool_max")
    made.attrs = {"schedule_rule": "meta_schedule.adaptive_pool_max"}
    return made


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
        raise ValueError("upsampling supports only the layout NCHW and the method nearest_neighbor")
    if scale_h != int(scale_h) or scale_w != int(scale_w):
        raise ValueError(f"upsampling: the scales must be integers, found {scale_h} and {scale_w}")
    down, across = int(scale_h), int(scale_w)
    n, channels, height, width = data.shape
    made: Tensor = te.compute(
        [n, channels, height * down, width * across],
        lambda nn, c, y, x: data(nn, c, tirx.floordiv(y, down), tirx.floordiv(x, across)),
        name="resize",
    )
    return made
