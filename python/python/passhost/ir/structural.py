"""Structural equality and hash, which ignore variable names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from passhost._tensor import Tensor
from passhost.error import too_deep
from passhost.ir._node import Node
from passhost.ir.expr import Constant, GenericConst, GlobalVar, Op, StringImm, Var
from passhost.ir.type import FuncType, PrimType, TupleType, Type

_FIELDS: dict[Any, tuple[str, ...]] = {}


def fields_of(cls: type) -> tuple[str, ...]:
    """Returns the field names of a class without its type, which follows from the others."""
    found = _FIELDS.get(cls)
    if found is None:
        found = _FIELDS[cls] = _fields(cls)
    return found


def _fields(cls: type) -> tuple[str, ...]:
    slots = [name for base in reversed(cls.__mro__) for name in base.__dict__.get("__slots__", ())]
    return tuple(name for name in slots if not name.startswith("_") and name != "ty")


class _Comparison:
    """The state of a comparison: the correspondence of variables between both sides."""

    def __init__(self, free: bool) -> None:
        self.free = free
        self.forth: dict[int, tuple[Var, Var]] = {}
        self.back: dict[int, Var] = {}

    def define(self, a: Var, b: Var) -> bool:
        if type(a) is not type(b) or not self.same(a.ty, b.ty, defines=True):
            return False
        self.forth[id(a)], self.back[id(b)] = (a, b), a
        return True

    def variables(self, a: Var, b: Var, defines: bool) -> bool:
        known = self.forth.get(id(a))
        if known is not None:
            return known[1] is b
        if id(b) in self.back:
            return False
        if a is b:
            return not self.free or self.define_plain(a, b)
        return (self.free or defines) and a._prim and b._prim and a.ty == b.ty and self.define_plain(a, b)

    def defined(self, a: Any, b: Any) -> bool:
        """Compares variables that are defined here."""
        if isinstance(a, Var) and isinstance(b, Var):
            known = self.forth.get(id(a))
            return known[1] is b if known is not None else self.define(a, b)
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(map(self.defined, a, b))
        return self.same(a, b)

    def define_plain(self, a: Var, b: Var) -> bool:
        self.forth[id(a)], self.back[id(b)] = (a, b), a
        return True

    def same(self, a: Any, b: Any, defines: bool = False) -> bool:
        if isinstance(a, Node) and isinstance(b, Node):
            return self.nodes(a, b, defines)
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return len(a) == len(b) and all(self.same(x, y, defines) for x, y in zip(a, b, strict=True))
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            return a.keys() == b.keys() and all(self.same(value, b[key], defines) for key, value in a.items())
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return a.dtype == b.dtype and a.shape == b.shape and a._bytes() == b._bytes()
        return type(a) is type(b) and bool(a == b)

    def nodes(self, a: Node, b: Node, defines: bool) -> bool:
        from passhost.relax.expr import Binding, Function
        from passhost.tirx.stmt import TensorRegion

        if isinstance(a, TensorRegion) and isinstance(b, TensorRegion):
            return self.region(a, b)
        if isinstance(a, Var) and isinstance(b, Var):
            if self.variables(a, b, defines):
                return True
            known = a._prim or id(a) in self.forth or id(b) in self.back
            return self.free and not known and type(a) is type(b) and self.define(a, b)
        if type(a) is not type(b):
            return False
        if isinstance(a, PrimType | GlobalVar | Op | StringImm):
            return bool(a == b)
        if isinstance(a, Function) and isinstance(b, Function):
            return self.functions(a, b)
        if isinstance(a, Binding) and isinstance(b, Binding):
            values = [name for name in fields_of(type(a)) if name != "var"]
            same = all(self.same(getattr(a, name), getattr(b, name), name == "ty") for name in values)
            same = same and self.same(getattr(a, "ty", None), getattr(b, "ty", None), True)
            return same and self.define(a.var, b.var)
        if isinstance(a, Constant) and isinstance(a, GenericConst) and not self.same(a.ty, getattr(b, "ty", None)):
            return False
        if a is b and not self.forth:
            return True
        defines_here = getattr(type(a), "_defines", ())
        if defines_here:
            # Fields are declared in an order that puts definitions before uses.
            names = type(a).__annotations__
            return all(
                (self.defined if name in defines_here else self.same)(getattr(a, name), getattr(b, name))
                for name in names
                if not name.startswith("_")
            )
        return all(self.same(getattr(a, name), getattr(b, name), defines) for name in fields_of(type(a)))

    def region(self, a: Any, b: Any) -> bool:
        """Compares a region that a block reads or writes. As in TVM, undefined buffers are matched here."""
        one, other = a.source, b.source
        is_new = id(one) not in self.forth and id(other) not in self.back
        if not self.variables(one, other, False) and not (is_new and self.define(one, other)):
            return False
        return self.same(a.region, b.region)

    def functions(self, a: Any, b: Any) -> bool:
        if len(a.params) != len(b.params) or a.is_pure != b.is_pure or not self.same(a.attrs, b.attrs):
            return False
        if not all(self.define(x, y) for x, y in zip(a.params, b.params, strict=True)):
            return False
        return self.same(a.body, b.body) and self.same(a.ret_ty, b.ret_ty)


def same_types(a: Type, b: Type) -> bool:
    """Returns true if two types are equal, with the same symbolic variables."""
    from passhost.relax.type import TensorType

    if type(a) is TensorType and type(b) is TensorType and _plainly_same(a, b):
        return True
    return _Comparison(free=False).same(a, b)


def _plainly_same(a: Any, b: Any) -> bool:
    """Returns true if two tensor types are obviously the same; if false, they may still be."""
    if a.dtype is not b.dtype or a.ndim != b.ndim or a.vdevice is not None or b.vdevice is not None:
        return False
    dims, others = getattr(a.shape, "values", None), getattr(b.shape, "values", None)
    if dims is None or others is None:
        return a.shape is b.shape
    for dim, other in zip(dims, others, strict=True):  # noqa: SIM110, a generator costs more
        if dim is not other:
            return False
    return True


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Returns true if two modules, functions, expressions or types are equal up to variable names.

    With `map_free_vars`, free variables of both sides may be different ones, too.
    """
    from passhost.ir.function import BaseFunc
    from passhost.ir.module import IRModule

    if isinstance(lhs, IRModule) and isinstance(rhs, IRModule):
        return lhs._handle().structural_equal(rhs._handle())
    if isinstance(lhs, BaseFunc) and isinstance(rhs, BaseFunc) and type(lhs) is type(rhs):
        symbols = [func.attrs.get("global_symbol") for func in (lhs, rhs)]
        if symbols[0] != symbols[1]:
            return False
        handles = _handles(lhs, rhs)
        if handles is not None:
            return bool(handles[0].structural_equal(handles[1]))
    try:
        return _Comparison(map_free_vars).same(lhs, rhs)
    except RecursionError as error:
        raise too_deep(error) from None


def _handles(lhs: Any, rhs: Any) -> tuple[Any, Any] | None:
    from passhost.error import IllFormedError

    if not hasattr(lhs, "_seal"):
        return None
    try:
        return lhs._seal(), rhs._seal()
    except (IllFormedError, TypeError):
        return None


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """Returns a number that is equal for structurally equal objects."""
    from passhost.ir.module import IRModule

    if isinstance(node, IRModule):
        return node._handle().structural_hash()
    handle = node._seal() if hasattr(node, "_seal") else None
    try:
        return handle.structural_hash() if handle is not None else hash(_shape(node))
    except RecursionError as error:
        raise too_deep(error) from None


def _shape(node: Any) -> Any:
    if isinstance(node, Var):
        return "var"
    if isinstance(node, PrimType | GlobalVar | Op | StringImm):
        return str(node)
    if isinstance(node, Node):
        return (type(node).__name__, *(_shape(getattr(node, name)) for name in fields_of(type(node))))
    if isinstance(node, tuple | list):
        return tuple(map(_shape, node))
    if isinstance(node, Mapping):
        return tuple((key, _shape(value)) for key, value in sorted(node.items()))
    return str(node) if not isinstance(node, Tensor) else node.shape


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raises `ValueError`, with the difference of the texts, unless both are structurally equal."""
    if structural_equal(lhs, rhs, map_free_vars):
        return
    raise ValueError(f"StructuralEqual check failed:\n{difference(lhs, rhs)}")


def difference(lhs: Any, rhs: Any) -> str:
    """Returns the difference between the texts of two objects, or another description if the texts are equal."""
    import difflib

    left, right = _text(lhs).splitlines(), _text(rhs).splitlines()
    lines = list(difflib.unified_diff(left, right, "left", "right", lineterm="", n=2))
    if lines:
        return "\n".join(lines)
    if type(lhs) is not type(rhs):
        return f"one is {type(lhs).__name__}, the other is {type(rhs).__name__}"
    return "their texts are equal; they differ in types, attributes, or in which variables they use"


def _text(side: Any) -> str:
    try:
        return str(side.script()) if hasattr(side, "script") else repr(side)
    except ValueError as error:
        return f"no text: {error}"


def is_base_of(base: Type, derived: Type) -> bool:
    """Returns true if every value of `derived` is a value of `base`."""
    from passhost.relax.type import AnyType, ShapeType, TensorType

    if isinstance(base, AnyType) or base == derived:
        return True
    if isinstance(base, TensorType) and isinstance(derived, TensorType):
        dtype = base.dtype is None or base.dtype == derived.dtype
        shape = base.shape is None or (
            derived.shape is not None and _Comparison(free=False).same(base.shape, derived.shape)
        )
        return dtype and shape and base.ndim in (-1, derived.ndim)
    if isinstance(base, ShapeType) and isinstance(derived, ShapeType):
        known = base.values is None or _Comparison(free=False).same(base.values, derived.values)
        return known and base.ndim in (-1, derived.ndim)
    if isinstance(base, TupleType) and isinstance(derived, TupleType):
        pairs = zip(base.fields, derived.fields, strict=False)
        return len(base.fields) == len(derived.fields) and all(is_base_of(a, b) for a, b in pairs)
    if isinstance(base, FuncType) and isinstance(derived, FuncType):
        pure = derived.purity or not base.purity
        params = base.params is None or (derived.params is not None and len(base.params) == len(derived.params))
        return pure and params and is_base_of(base.ret, derived.ret)
    return False
