"""Operators that take types, functions or lists, as in TVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from passhost.ir.expr import Call, Expr, GlobalVar, Op, StringImm, Tuple, checked_expr
from passhost.ir.type import TupleType, Type, as_dtype, checked_type
from passhost.relax.expr import ExternFunc, const, prim_value
from passhost.relax.op.declared import maker
from passhost.relax.op.new_shape import told_shape

__all__ = [
    "arange",
    "assert_op",
    "call_builtin_with_ctx",
    "call_dps_packed",
    "call_inplace_packed",
    "call_packed",
    "call_pure_packed",
    "call_py_func",
    "call_tir",
    "call_tir_inplace",
    "call_tir_with_grad",
    "clip",
    "eye",
    "eye_like",
    "full",
    "invoke_closure",
    "invoke_pure_closure",
    "linear",
    "masked_fill",
    "null_value",
    "ones",
    "print",
    "reshape",
    "shape_of",
    "tril",
    "triu",
    "unique",
    "zeros",
]


def _result(out_ty: Any) -> Type:
    if isinstance(out_ty, list | tuple):
        types = [checked_type(ty) for ty in out_ty]
        return types[0] if len(types) == 1 else TupleType(types)
    return checked_type(out_ty)


def _types(ty_args: Any) -> list[Type]:
    if ty_args is None:
        return []
    return [checked_type(ty) for ty in (ty_args if isinstance(ty_args, list | tuple) else [ty_args])]


def _tuple(args: Any) -> Expr:
    if isinstance(args, Expr) and (isinstance(args, Tuple) or isinstance(args.ty, TupleType)):
        return args
    return Tuple(args if isinstance(args, list | tuple) else [args])


def _function(func: Any) -> Expr:
    return ExternFunc(func) if isinstance(func, str) else checked_expr(func, "a function")


def call_tir(gvar: GlobalVar, args: Any, out_ty: Any) -> Call:
    """Returns a call of a PrimFunc that writes results of a type."""
    return Call(Op.get("relax.call_tir"), [gvar, _tuple(args)], ty_args=[_result(out_ty)])


def call_tir_inplace(gvar: GlobalVar, args: Any, inplace_indices: int | list[int], out_ty: Any) -> Call:
    """Like `call_tir`, but results overwrite the arguments at these indices; -1 means a new tensor."""
    indices = [inplace_indices] if isinstance(inplace_indices, int) else inplace_indices
    attrs = {"inplace_indices": tuple(indices)}
    return Call(Op.get("relax.call_tir_inplace"), [gvar, _tuple(args)], attrs, [_result(out_ty)])


def call_tir_with_grad(
    gvar: GlobalVar, args: Any, out_ty: Any, te_grad_name: str, te_grad_kwargs: dict[str, Any] | None = None
) -> Call:
    """Like `call_tir`, with the name of the function that computes the gradient."""
    attrs = {"te_grad_name": te_grad_name, "te_grad_kwargs": te_grad_kwargs or {}}
    return Call(Op.get("relax.call_tir_with_grad"), [gvar, _tuple(args)], attrs, [_result(out_ty)])


def call_dps_packed(func: str | Expr, args: Any, out_ty: Any) -> Call:
    """Returns a call of an external function that writes results of a type."""
    return Call(Op.get("relax.call_dps_packed"), [_function(func), _tuple(args)], ty_args=[_result(out_ty)])


def call_packed(func: str | Expr, *args: Any, ty_args: Any = None, **attrs: Any) -> Call:
    """Returns a call of an external function, which may have an effect."""
    return Call(_function(func), args, attrs or None, _types(ty_args))


def call_pure_packed(func: str | Expr, *args: Any, ty_args: Any) -> Call:
    """Returns a call of an external function without effects."""
    return Call(Op.get("relax.call_pure_packed"), [_function(func), *args], ty_args=_types(ty_args))


def call_py_func(func_name: str | StringImm, args: Any, out_ty: Any) -> Call:
    """Returns a call of a Python function of the module."""
    name = StringImm(func_name) if isinstance(func_name, str) else func_name
    return Call(Op.get("relax.call_py_func"), [name, _tuple(args)], ty_args=[_result(out_ty)])


def call_inplace_packed(func: str | Expr, *args: Any, inplace_indices: int | list[int], ty_args: Any) -> Call:
    """Returns a call of an external function whose results overwrite arguments."""
    indices = [inplace_indices] if isinstance(inplace_indices, int) else inplace_indices
    attrs = {"inplace_indices": tuple(indices)}
    return Call(Op.get("relax.call_inplace_packed"), [_function(func), *args], attrs, _types(ty_args))


def call_builtin_with_ctx(func: str | Expr, args: Any, *, ty_args: Any = None) -> Call:
    """Returns a call of a runtime function, which receives the runtime's context."""
    return Call(Op.get("relax.call_builtin_with_ctx"), [_function(func), _tuple(args)], ty_args=_types(ty_args))


def invoke_closure(closure: Expr, args: Any, ty_args: Any) -> Call:
    """Returns a call of a closure."""
    return Call(Op.get("relax.invoke_closure"), [closure, _tuple(args)], ty_args=_types(ty_args))


def invoke_pure_closure(closure: Expr, args: Any, ty_args: Any) -> Call:
    """Returns a call of a closure without effects."""
    return Call(Op.get("relax.invoke_pure_closure"), [closure, _tuple(args)], ty_args=_types(ty_args))


def null_value() -> Call:
    """Returns a null value."""
    return Call(Op.get("relax.null_value"), [])


def print(*values: Any, format: str | Expr = "") -> Call:
    """Returns a call that prints values at run time."""
    return Call(Op.get("relax.print"), [checked_expr(format, "a format"), *values])


def assert_op(condition: Any, format_args: Any = None, format: str | Expr = "") -> Call:
    """Returns a call that checks a condition at run time. The message contains the values of `format_args`."""
    values = [] if format_args is None else format_args if isinstance(format_args, list | tuple) else [format_args]
    args = [checked_expr(condition, "a condition"), checked_expr(format, "a format"), *values]
    return Call(Op.get("relax.assert_op"), args)


def shape_of(expr: Expr) -> Call:
    """Returns a call that computes the shape of a tensor."""
    return Call(Op.get("relax.shape_of"), [expr])


def reshape(x: Expr, shape: Any) -> Call:
    """Reshapes a tensor. One dimension may be -1, and is then inferred; 0 keeps a dimension."""
    return _reshape()(x, told_shape(x, shape))


@cache
def _reshape() -> Callable[..., Call]:
    return maker("relax.reshape")


def clip(x: Expr, min: Any, max: Any) -> Call:
    """Clamps values to bounds."""
    return Call(Op.get("relax.clip"), [x, prim_value(min), prim_value(max)])


def masked_fill(x: Expr, mask: Expr, value: Any) -> Call:
    """Replaces the elements at which a mask is true by a value."""
    given = value if isinstance(value, Expr) else const(value)
    dtype = given.ty.dtype  # type: ignore[attr-defined]
    return maker("relax.where")(mask, maker("relax.full_like")(x, given, dtype), x)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Call:
    """Returns a tensor of equal elements."""
    value = fill_value if isinstance(fill_value, Expr) else const(fill_value, as_dtype(dtype))
    return maker("relax.full")(shape, value, dtype)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Call:
    """Returns equally spaced numbers."""
    start, end = (0, start) if end is None else (start, end)
    numbers: Iterable[Any] = (start, end, step)
    if dtype is None:
        whole = all(isinstance(x, int) or (isinstance(x, Expr) and str(x.ty).startswith("int")) for x in numbers)
        dtype = "int64" if whole else "float32"
    return maker("relax.arange")(*map(prim_value, (start, end, step)), dtype)


def zeros(shape: Any, dtype: Any) -> Call:
    """Returns a tensor of zeros."""
    return maker("relax.zeros")(shape, dtype)


def ones(shape: Any, dtype: Any) -> Call:
    """Returns a tensor of ones."""
    return maker("relax.ones")(shape, dtype)


def eye(n: Any, m: Any = None, k: Any = 0, dtype: Any = "float32") -> Call:
    """Returns an n x m matrix with ones on diagonal `k`; by default it is square."""
    return maker("relax.eye")(*map(prim_value, (n, n if m is None else m, k)), dtype)


def eye_like(x: Expr, k: Any = 0, dtype: Any = None) -> Call:
    """Returns a matrix of the shape of `x` with ones on diagonal `k`."""
    return maker("relax.eye_like")(x, prim_value(k), dtype)


def tril(x: Expr, k: Any = 0) -> Call:
    """Replaces the elements above diagonal `k` by 0."""
    return maker("relax.tril")(x, prim_value(k))


def triu(x: Expr, k: Any = 0) -> Call:
    """Replaces the elements below diagonal `k` by 0."""
    return maker("relax.triu")(x, prim_value(k))


def unique(
    x: Expr,
    sorted: Any = True,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
) -> Call:
    """Returns the unique elements of a tensor, or its unique parts along an axis."""
    flags = map(prim_value, (sorted, return_index, return_inverse, return_counts))
    return maker("relax.unique")(x, *flags, None if axis is None else prim_value(axis))


def linear(data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: Any = None) -> Expr:
    """Multiplies by a transposed matrix, and adds a bias, if there is one."""
    product = maker("relax.matmul")(data, maker("relax.permute_dims")(weight, None), out_dtype)
    return product if bias is None else maker("relax.add")(product, bias)
