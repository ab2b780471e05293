"""Expressions, bindings, blocks and functions of Relax."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from passhost import _passhost, _plugins, _provided
from passhost._numpy import np
from passhost._tensor import Tensor, numpy_dtype
from passhost.ir import prim
from passhost.ir._node import Comparison, Node, fields_of
from passhost.ir.attrs import DictAttrs
from passhost.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExprWithOp,
    GenericConst,
    GlobalVar,
    Op,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    _Callable,
    checked_expr,
)
from passhost.ir.function import BaseFunc
from passhost.ir.type import MISSING, AnyType, FuncType, Type, as_dtype, checked_type
from passhost.relax.type import ShapeExpr, TensorType
from passhost.relax.types import defined_in

__all__ = [
    "Binding",
    "BindingBlock",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "Expr",
    "ExternFunc",
    "Function",
    "GenericConst",
    "GlobalVar",
    "If",
    "MatchCast",
    "SeqExpr",
    "ShapeExpr",
    "StringImm",
    "Tuple",
    "TupleGetItem",
    "Var",
    "VarBinding",
    "const",
    "extern",
    "get_shape_of",
    "prim_value",
]


class DataflowVar(Var):
    """A variable that is local to its dataflow block."""

    __slots__ = ()


class If(_Callable, ExprWithOp):
    """A conditional expression."""

    __slots__ = ("cond", "false_branch", "true_branch")
    cond: Expr
    true_branch: SeqExpr
    false_branch: SeqExpr

    def __init__(self, cond: Expr, true_branch: Expr, false_branch: Expr, span: Any = None) -> None:
        """Creates an If from a condition, the branch if it is true, and the branch if it is false."""
        self._cond = checked_expr(cond, "the condition of an If")
        self._true_branch, self._false_branch = as_sequence(true_branch), as_sequence(false_branch)
        self._ty = MISSING


class Binding(Node):
    """A binding of a variable to a value."""

    __slots__ = ("var",)
    var: Var
    _var: Var
    _value: Expr

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        if type(self) is not type(other):
            return False
        values = [name for name in fields_of(type(self)) if name != "var"]
        same = all(by.same(getattr(self, name), getattr(other, name)) for name in values)
        same = same and by.same(getattr(self, "ty", None), getattr(other, "ty", None), True)
        return same and by.define(self.var, other.var)


class VarBinding(Binding):
    """`var = value`."""

    __slots__ = ("value",)
    value: Expr

    def __init__(self, var: Var, value: Expr, span: Any = None) -> None:
        """Creates a binding from the variable and its value."""
        self._var, self._value = _checked_var(var), checked_expr(value, "the value of a binding")


class MatchCast(Binding):
    """`var = R.match_cast(value, ty)`: checks the type at run time, and defines the symbolic variables in it."""

    __slots__ = ("ty", "value")
    value: Expr
    ty: Type

    def __init__(self, var: Var, value: Expr, ty: Type, span: Any = None) -> None:
        """Creates a match_cast from the variable, the value, and its type."""
        self._var, self._value = _checked_var(var), checked_expr(value, "the value of a match_cast")
        self._ty = checked_type(ty)


class BindingBlock(Node):
    """A block of bindings."""

    __slots__ = ("bindings",)
    bindings: tuple[Binding, ...]

    def __init__(self, bindings: Iterable[Binding], span: Any = None) -> None:
        """Creates a block of bindings, in order."""
        self._bindings = tuple(bindings)
        for binding in self._bindings:
            if not isinstance(binding, Binding):
                raise TypeError(f"a block consists of bindings, not {type(binding).__name__}")


class DataflowBlock(BindingBlock):
    """A block of bindings without effects or control flow."""

    __slots__ = ()


class SeqExpr(_Callable, ExprWithOp):
    """Blocks, followed by a result value."""

    __slots__ = ("blocks", "body")
    blocks: tuple[BindingBlock, ...]
    body: Expr

    def __init__(self, blocks: Iterable[BindingBlock], body: Expr, span: Any = None) -> None:
        """Creates a sequence from blocks in order, and the result value."""
        self._blocks, self._body = tuple(blocks), checked_expr(body, "the value of a SeqExpr")
        for block in self._blocks:
            if not isinstance(block, BindingBlock):
                raise TypeError(f"a SeqExpr consists of blocks, not {type(block).__name__}")
        self._ty = MISSING


def as_sequence(expr: Expr) -> SeqExpr:
    """Returns a SeqExpr unchanged, and wraps any other expression in a SeqExpr without blocks."""
    if isinstance(expr, SeqExpr):
        return expr
    made = SeqExpr((), expr)
    made._ty = made.body.ty
    return made


def _checked_var(var: object) -> Var:
    if not isinstance(var, Var):
        raise TypeError(f"a binding binds a Var, not {type(var).__name__}")
    return var


class Function(BaseFunc):
    """A Relax function.

    A function from the host is a handle; parameters and body are created on first access, and remain the same objects
    as long as the function exists.
    """

    __slots__ = ("__weakref__", "_before", "_handle", "_parts", "_sealed_as")
    _before: Function | None
    """The function from which a pass created this function, as long as its variables can be reused here."""
    _handle: _passhost.Body | None
    _sealed_as: str | None
    _parts: tuple[tuple[Var, ...], SeqExpr, Type, bool] | None

    def __init__(
        self,
        params: Sequence[Var],
        body: Expr,
        ret_ty: Type | None = None,
        is_pure: bool | None = True,
        attrs: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> None:
        """Creates a function from parameters, body, declared result type, purity, and attributes."""
        params = tuple(_checked_var(param) for param in params)
        body = as_sequence(checked_expr(body, "the body of a function"))
        result = body.body.ty if ret_ty is None else checked_type(ret_ty)
        self._handle = self._before = None
        self._sealed_as = None
        self._parts = (params, body, result, bool(is_pure))
        self._attrs = DictAttrs(attrs)
        self._ty = _function_type(params, result, bool(is_pure))

    @staticmethod
    def _of(handle: _passhost.Body, name: str) -> Function:
        """Wraps a function of the host, under its name in a module."""
        key = (handle, name)
        with _LOCK:
            found = _FUNCTIONS.get(key)
            if found is None:
                found = Function.__new__(Function)
                found._handle, found._parts, found._sealed_as, found._before = handle, None, name, None
                found._ty = MISSING
                found._attrs = DictAttrs(_passhost.function_attrs(handle, name))
                _FUNCTIONS[key] = found
        return found

    @staticmethod
    def create_empty(
        params: Sequence[Var],
        ret_ty: Type,
        is_pure: bool | None = True,
        attrs: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> Function:
        """Creates a function without a body, which `BlockBuilder` needs for recursive functions."""
        return Function(params, Tuple(()), ret_ty, is_pure, attrs)

    def _expanded(self) -> tuple[tuple[Var, ...], SeqExpr, Type, bool]:
        parts = self._parts
        if parts is None:
            assert self._handle is not None
            with _LOCK:
                if self._parts is not None:
                    return self._parts
                before, self._before = self._before, None
                known = _variables(before) if before is not None and before._parts is not None else None
                parts = _passhost.expand(self._handle, known)
                self._ty = _function_type(parts[0], parts[2], parts[3])
                self._parts = parts  # set last, because other threads check it first
        return parts

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters."""
        return self._expanded()[0]

    @property
    def body(self) -> SeqExpr:
        """The blocks and the result value."""
        return self._expanded()[1]

    @property
    def ret_ty(self) -> Type:
        """The declared type of the result."""
        return self._expanded()[2]

    @property
    def is_pure(self) -> bool:
        """True if the function is declared to have no effects."""
        return self._expanded()[3]

    @property
    def ty(self) -> Type:  # type: ignore[override]
        """The type."""
        self._expanded()
        return self._ty

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        if not isinstance(other, Function):
            return False
        if len(self.params) != len(other.params) or self.is_pure != other.is_pure:
            return False
        if not by.same(self.attrs, other.attrs):
            return False
        if not all(by.define(x, y) for x, y in zip(self.params, other.params, strict=True)):
            return False
        return by.same(self.body, other.body) and by.same(self.ret_ty, other.ret_ty)

    def _with_attrs(self, attrs: DictAttrs) -> Function:
        made = Function.__new__(Function)
        made._handle = made._before = None
        made._sealed_as = None
        made._parts, made._attrs, made._ty = self._expanded(), attrs, self.ty
        return made

    def _seal(self, name: str | None = None, globals: Mapping[str, Any] | None = None) -> _passhost.Body:
        """Converts the function to the host's form, under a name. Raises `IllFormedError` if it is ill-formed."""
        if self._handle is not None and (name is None or name == self._sealed_as):
            return self._handle
        _plugins.ensure_loaded()
        handle: _passhost.Body = _passhost.seal(self, name, dict(globals or {}))
        self._handle, self._sealed_as = handle, name
        if name is not None:
            _FUNCTIONS[(handle, name)] = self
        return handle

    def _as_global(self, name: str) -> Type:
        """Returns the type. The body is not needed, and may contain mutually recursive calls."""
        return self.ty

    def script(self, *, show_meta: bool = False, **_options: Any) -> str:
        """Returns the function as TVMScript.

        If its constants take 64 KiB or more in total, their data is omitted unless `show_meta` is true. A text without
        the data cannot be read.
        """
        name = str(self.attrs.get("global_symbol", "main"))
        return _passhost.print_function(name, self._seal(self._sealed_as or name), show_meta)

    def bind_params(self, binding_map: Mapping[str | Var, Any]) -> Function:
        """Returns the function with values in place of parameters, which are removed."""
        return cast(Function, _provided.bind_params(self, binding_map))

    def bind_symbolic_vars(self, binding_map: Mapping[str | Var, Any]) -> Function:
        """Returns the function with values in place of symbolic variables."""
        return cast(Function, _provided.bind_symbolic_vars(self, binding_map))


def _variables(function: Function) -> dict[str, Var]:
    """Returns the uniquely named variables of a function: parameters, symbolic variables, and bound variables."""
    params, body, _, _ = function._expanded()
    bindings = [binding for block in body.blocks for binding in block.bindings]
    types = [param.ty for param in params] + [binding.ty for binding in bindings if isinstance(binding, MatchCast)]
    found: dict[str, Var] = {}
    twice: set[str] = set()
    for var in dict.fromkeys([*params, *defined_in(types), *(binding.var for binding in bindings)]):
        if found.setdefault(var.name, var) is not var:
            twice.add(var.name)
    return {name: var for name, var in found.items() if name not in twice}


# Held while a host function or its parts are converted to objects, so that all threads share the same objects.
_LOCK = threading.RLock()
_FUNCTIONS: weakref.WeakValueDictionary[tuple[_passhost.Body, str], Function] = weakref.WeakValueDictionary()


def _function_type(params: Sequence[Var], ret: Type, purity: bool) -> FuncType:
    any_type = AnyType()
    known = [any_type if param.ty is MISSING else param.ty for param in params]
    return FuncType(known, any_type if ret is MISSING else ret, purity)


class ExternFunc(BaseFunc):
    """An external function, identified by its symbol."""

    __slots__ = ("global_symbol",)
    global_symbol: str

    def __init__(self, global_symbol: str, ty: Type | None = None, span: Any = None) -> None:
        """Creates a function from a symbol, and a type if it is known."""
        if not isinstance(global_symbol, str):
            raise TypeError(f"the symbol of a function must be a str, not {type(global_symbol).__name__}")
        self._global_symbol = global_symbol
        self._attrs = DictAttrs()
        self._ty = FuncType.opaque_func() if ty is None else ty

    def _seal(self, name: str | None = None, globals: Mapping[str, Any] | None = None) -> _passhost.Body:
        """Converts the function to the host's form."""
        _plugins.ensure_loaded()
        return _passhost.extern_function(self.global_symbol, self.ty)


def _update_type(expr: Expr, ty: Type | None) -> None:
    """Sets the type of an expression that was created without one."""
    if expr.ty is not MISSING:
        raise ValueError(f"the expression already has the type {expr.ty!r}")
    expr._ty = MISSING if ty is None else ty


def extern(name: str, ty: Type | None = None, span: Any = None) -> ExternFunc:
    """Returns an external function."""
    return ExternFunc(name, ty)


def prim_value(value: Any, dtype: str | None = None) -> Expr:
    """Converts a number to a scalar expression, by default int64 or float32."""
    if isinstance(value, Expr):
        return value
    if dtype is None and isinstance(value, int) and not isinstance(value, bool):
        dtype = "int64"
    return prim.scalar(value, dtype)


def const(value: Any, dtype: str | None = None) -> GenericConst:
    """Returns a constant tensor, from a number, a list of numbers, an array, or a tensor.

    As in TVM, without `dtype` float64 becomes float32 and int64 becomes int32; a tensor keeps its type.
    """
    if isinstance(value, Tensor) and not value.numpy().flags.writeable:
        return GenericConst(value, TensorType(value.shape, value.dtype))
    if isinstance(value, GenericConst):
        return value
    array = _as_array(value, as_dtype(dtype))
    name = as_dtype(dtype) or str(array.dtype)
    array.flags.writeable = False
    return GenericConst(Tensor(array, name), TensorType(array.shape, name))


def _as_array(value: Any, dtype: str | None) -> np.ndarray[Any, Any]:
    is_tensor = hasattr(value, "numpy")
    if is_tensor:
        value = value.numpy()
    if not isinstance(value, bool | int | float | list | tuple | np.ndarray | np.generic):
        raise ValueError(f"a constant must be a number, a list of numbers or an array, not {type(value).__name__}")
    array = np.array(value)
    if array.dtype == object or array.dtype.kind not in "biufcV":
        raise ValueError(f"a constant consists of numbers, not {value!r}")
    if dtype is None and not is_tensor:
        dtype = {"float64": "float32", "int64": "int32"}.get(str(array.dtype))
    if dtype is not None:
        array = _converted(array, dtype)
    return np.ascontiguousarray(array) if array.ndim else array


def _converted(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Converts an array to another data type. Raises `ValueError` if an integer type cannot represent a value."""
    to = numpy_dtype(dtype)
    if to.kind in "iu" and array.size and array.dtype.kind in "iuf":
        low, high = np.iinfo(to).min, np.iinfo(to).max
        if not (np.isfinite(array).all() and low <= array.min() and array.max() <= high):
            raise ValueError(f"a {dtype} constant must contain integers from {low} to {high}, not {array!r}")
    return array.astype(to)


def get_shape_of(expr: Expr) -> Expr:
    """Returns the shape of a tensor if it is known, otherwise a call of `relax.shape_of`."""
    ty = expr.ty
    if isinstance(ty, TensorType) and ty.shape is not None:
        return ty.shape
    if ty is not MISSING and not isinstance(ty, TensorType | AnyType):
        raise ValueError(f"a value of type {ty!r} does not have a shape")
    return Call(Op.get("relax.shape_of"), [expr])


def _function_of_host(body: _passhost.Body, name: str, before: BaseFunc | None) -> Function:
    function = Function._of(body, name)
    if isinstance(before, Function) and before is not function and function._parts is None:
        function._before = before
    return function


def _extern_of_host(body: _passhost.Body, _name: str, _before: BaseFunc | None) -> ExternFunc:
    return ExternFunc(_passhost.extern_symbol(body))


_provided.functions_of_kind["relax"] = _function_of_host
_provided.functions_of_kind["extern"] = _extern_of_host
_provided.function_of = partial(Function, ())
