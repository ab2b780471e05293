"""Functions of namespaces such as `relax.op.nn`, with the parameters of TVM instead of the operator's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost.ir.expr import Call, Expr, StringImm
from passhost.ir.type import PrimType
from passhost.relax.expr import DataTypeImm, ShapeExpr, prim_value
from passhost.relax.op.declared import maker
from passhost.relax.op.special import clip


def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None = None,
    scale: Any = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:
    """Returns scaled dot-product attention, with a bias if there is one."""
    options = {"scale": scale, "causal_mask": causal_mask, "window_size": window_size}
    if bias is None:
        return maker("relax.nn.attention")(query, key, value, **options)
    return maker("relax.nn.attention_bias")(query, key, value, bias, **options)


def attention_var_len(
    queries: Expr,
    keys: Expr,
    values: Expr,
    seqstart_q: Expr,
    max_seqlen_q: Expr,
    seqstart_k: Expr | None = None,
    max_seqlen_k: Expr | None = None,
    scale: Any = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:
    """Returns scaled dot-product attention of sequences of various lengths, one after the other. Keys are divided like
    queries by default."""
    starts = (seqstart_q, seqstart_q if seqstart_k is None else seqstart_k)
    lengths = (max_seqlen_q, max_seqlen_q if max_seqlen_k is None else max_seqlen_k)
    options = {"scale": scale, "causal_mask": causal_mask, "window_size": window_size}
    return maker("relax.nn.attention_var_len")(queries, keys, values, *starts, *lengths, **options)


def relu6(data: Expr) -> Call:
    """Clamps values to the range from 0 to 6."""
    return clip(data, 0, 6)


def resize2d(
    data: Expr,
    size: Any,
    roi: Any = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
) -> Call:
    """Resizes images. One size applies to both axes."""
    method_options = (method, coordinate_transformation_mode, rounding_method, cubic_alpha, cubic_exclude)
    return _resized(2, data, size, roi, layout, *method_options, extrapolation_value, out_dtype)


def resize3d(
    data: Expr,
    size: Any,
    roi: Any = None,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
) -> Call:
    """Resizes volumes. One size applies to all three axes."""
    method_options = (method, coordinate_transformation_mode, rounding_method, cubic_alpha, cubic_exclude)
    return _resized(3, data, size, roi, layout, *method_options, extrapolation_value, out_dtype)


def _resized(n: int, data: Expr, size: Any, roi: Any, *options: Any) -> Call:
    return maker(f"relax.image.resize{n}d")(data, _sizes(size, n), _region(roi, n), *options)


def _region(roi: Any, n: int) -> Any:
    if isinstance(roi, list | tuple):
        return tuple(map(float, roi))
    return (0.0 if roi is None else float(roi),) * (2 * n)


def _sizes(size: Any, n: int) -> Any:
    if isinstance(size, list | tuple):
        return list(size) * n if len(size) == 1 else size
    is_one = isinstance(size, int) or (isinstance(size, Expr) and isinstance(size.ty, PrimType))
    return ShapeExpr([size] * n) if is_one else size


def _dtype(dtype: Any) -> Expr:
    return dtype if isinstance(dtype, Expr) else DataTypeImm(dtype)


def _shape(shape: Any) -> Expr:
    return shape if isinstance(shape, Expr) else ShapeExpr(shape)


def builtin_alloc_tensor(shape: Any, dtype: Any, runtime_device_index: Any, storage_scope: Any = "global") -> Call:
    """Returns a call that allocates a tensor."""
    scope = StringImm(storage_scope) if isinstance(storage_scope, str) else storage_scope
    index = prim_value(runtime_device_index)
    return maker("relax.builtin.alloc_tensor")(_shape(shape), _dtype(dtype), index, scope)


def memory_alloc_tensor(storage: Expr, offset: Any, shape: Any, dtype: Any, runtime_device_ind: Any = 0) -> Call:
    """Returns a call that creates a tensor in a storage."""
    index = prim_value(runtime_device_ind)
    return maker("relax.memory.alloc_tensor")(storage, prim_value(offset), _shape(shape), _dtype(dtype), index)


builtin_alloc_tensor.__name__ = memory_alloc_tensor.__name__ = "alloc_tensor"

# The functions, by the full name of an operator.
BY_NAME: dict[str, Callable[..., Any]] = {
    "relax.builtin.alloc_tensor": builtin_alloc_tensor,
    "relax.image.resize2d": resize2d,
    "relax.image.resize3d": resize3d,
    "relax.memory.alloc_tensor": memory_alloc_tensor,
    "relax.nn.attention": attention,
    "relax.nn.attention_bias": attention,
    "relax.nn.attention_var_len": attention_var_len,
    "relax.nn.relu6": relu6,
}
