"""`R`: Relax functions from decorated Python functions, and types for annotations."""

from __future__ import annotations

from typing import Any

from passhost import relax as _relax
from passhost.error import NameNotFoundError
from passhost.ir import expr
from passhost.ir.expr import Call, Expr, Op
from passhost.ir.type import FuncType, PrimType, TupleType, Type, checked_type
from passhost.relax.expr import ShapeExpr
from passhost.relax.op.declared import Namespace
from passhost.relax.type import AnyType, PackedFuncType, ShapeType, TensorType
from passhost.script._decorators import Anything, caller, in_module_class, read_function
from passhost.script._python_calls import emit_te

__all__ = [
    "Any_",
    "Callable",
    "Object",
    "PackedFunc",
    "Prim",
    "Shape",
    "Tensor",
    "Tuple",
    "emit_te",
    "emit_with_ty",
    "function",
]


def function(f: Any = None, *, check_well_formed: bool = True, **_options: Any) -> Any:
    """Parses a function: `@R.function`, `@R.function(private=True)`."""
    frame = caller()

    def decorated(f: Any) -> Any:
        return f if in_module_class(frame) else read_function(f, frame, "function", check_well_formed)

    return decorated if f is None else decorated(f)


def Tensor(shape: Any = None, dtype: Any = None, vdevice: Any = None, ndim: int = -1) -> TensorType | Anything:
    """Returns the type of tensors; for named dimensions, returns a placeholder for the annotation."""
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    if isinstance(shape, list | tuple) and any(not isinstance(dim, int | Expr) for dim in shape):
        return Anything("R.Tensor")
    if isinstance(vdevice, str):
        return Anything("R.Tensor")
    return TensorType(shape, dtype, vdevice, ndim)


def Shape(values: Any = None, ndim: int = -1) -> ShapeType | Anything:
    """Returns the type of shapes."""
    if isinstance(values, list | tuple) and any(not isinstance(dim, int | Expr) for dim in values):
        return Anything("R.Shape")
    return ShapeType(values, ndim)


def Tuple(*fields: Any) -> TupleType | Anything:
    """Returns the type of tuples."""
    items = fields[0] if len(fields) == 1 and isinstance(fields[0], list | tuple) else fields
    made = [_plain(item) for item in items]
    return Anything("R.Tuple") if any(item is None for item in made) else TupleType([i for i in made if i is not None])


def Callable(params: Any = None, ret: Any = None, purity: bool = True) -> FuncType | Anything:
    """Returns the type of functions."""
    if params is None:
        return FuncType.opaque_func(purity=purity)
    items = [_plain(item) for item in (params if isinstance(params, list | tuple) else [params])]
    result = _plain(ret)
    if result is None or any(item is None for item in items):
        return Anything("R.Callable")
    return FuncType([item for item in items if item is not None], result, purity)


def Prim(dtype: Any = None, value: Any = None) -> PrimType:
    """Returns the type of scalars."""
    if dtype is None and value is not None:
        dtype = "int64"
    return PrimType(dtype)


def Object() -> AnyType:
    """Returns the type of any value."""
    return AnyType()


Any_ = Object


def PackedFunc() -> PackedFuncType:
    """Returns the type of external functions."""
    return PackedFuncType()


def _plain(ty: Any) -> Type | None:
    if isinstance(ty, Anything):
        return None
    return checked_type(ty() if callable(ty) and not isinstance(ty, Type) else ty)


def emit_with_ty(op: str, args: Any, ty_args: Any = ()) -> Call:
    """Returns a call of an operator, whose type arguments determine the type of the result."""
    items = ty_args if isinstance(ty_args, list | tuple) else [ty_args]
    return Call(Op.get(op), list(args), None, [checked_type(item) for item in items])


def _tuple(*fields: Any) -> expr.Tuple:
    return expr.Tuple(fields)


def _element(tuple_value: Any, index: int) -> expr.TupleGetItem:
    return expr.TupleGetItem(expr.Tuple(tuple_value) if isinstance(tuple_value, list | tuple) else tuple_value, index)


_EXPRESSIONS = {
    "TupleGetItem": _element,
    "dtype": expr.DataTypeImm,
    "shape": ShapeExpr,
    "str": expr.StringImm,
    "tuple": _tuple,
}
"""Functions that create expressions other than operator calls."""


class _Scope:
    """The operators of a namespace, and names that occur only in the source of functions."""

    def __init__(self, operators: Namespace, name: str) -> None:
        self._operators, self._name = operators, name

    def __getattr__(self, word: str) -> Any:
        try:
            return getattr(self._operators, word)
        except NameNotFoundError:
            return Anything(f"{self._name}.{word}")


def __getattr__(name: str) -> Any:
    """Returns an operator, or a name used only in the source of functions."""
    if name.startswith(("_", "pytest")):
        raise AttributeError(name)
    if name == "Any":
        return Object
    if name in _EXPRESSIONS:
        return _EXPRESSIONS[name]
    found = getattr(_relax.op, name, None) if name not in ("dataflow", "output", "func_attr", "match_cast") else None
    if isinstance(found, Namespace):
        return _Scope(found, f"R.{name}")
    if found is not None:
        return found
    return getattr(_relax, name, None) or Anything(f"R.{name}")
