"""Expressions shared by Relax and TIR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from passhost import _provided
from passhost._numpy import is_integer, is_number
from passhost.error import IllFormedError
from passhost.ir._node import Comparison, Node
from passhost.ir.attrs import AttrObject, Attrs
from passhost.ir.op import check_operator, declared
from passhost.ir.type import MISSING, AnyType, PrimType, StringType, TupleType, Type, checked_type


class Expr(Node):
    """An expression. Its type is the missing type until it is inferred."""

    __slots__ = ("ty",)
    ty: Type
    _ty: Type

    @property
    def _prim(self) -> bool:
        return isinstance(self.ty, PrimType)

    def __getitem__(self, index: Any) -> Expr:
        """Returns an element of a tuple."""
        if not isinstance(index, int):
            raise TypeError(f"the index of an element must be an int, not {type(index).__name__}")
        ty = self.ty
        if isinstance(ty, TupleType) and not -len(ty.fields) <= index < len(ty.fields):
            raise IndexError(f"Tuple index out of range: {index} of {len(ty.fields)}")
        if isinstance(ty, TupleType):
            return TupleGetItem(self, index % len(ty.fields))
        if ty is not MISSING and not isinstance(ty, AnyType):
            raise TypeError(f"a value of type {ty!r} has no elements")
        return TupleGetItem(self, index)

    def __iter__(self) -> Iterator[Expr]:
        """Iterates over the elements of a tuple."""
        if not isinstance(self.ty, TupleType):
            raise TypeError(f"a value of type {self.ty!r} has no elements")
        return (self[at] for at in range(len(self.ty.fields)))


def _binary(name: str, relax_name: str | None = None, swapped: bool = False) -> Any:
    """Creates the method for a Python operator, which returns scalar arithmetic or a call of a Relax operator."""

    def method(self: Expr, other: object) -> Any:
        if self._prim and not (isinstance(other, Expr) and not other._prim):
            return _provided.arithmetic(name, self, other, swapped)
        if relax_name is None or not isinstance(other, Expr):
            if is_number(other):
                raise TypeError(f"Please convert {other} with `const` first")
            return NotImplemented
        call = _provided.relax_operator(relax_name)
        return call(other, self) if swapped else call(self, other)

    return method


class ExprWithOp(Expr):
    """An expression that supports Python operators, which create scalar arithmetic or calls of Relax operators."""

    __slots__ = ()
    __hash__ = object.__hash__

    __add__ = _binary("Add", "add")
    __radd__ = _binary("Add", "add", swapped=True)
    __sub__ = _binary("Sub", "subtract")
    __rsub__ = _binary("Sub", "subtract", swapped=True)
    __mul__ = _binary("Mul", "multiply")
    __rmul__ = _binary("Mul", "multiply", swapped=True)
    __truediv__ = _binary("Div", "divide")
    __rtruediv__ = _binary("Div", "divide", swapped=True)
    __floordiv__ = _binary("FloorDiv", "floor_divide")
    __rfloordiv__ = _binary("FloorDiv", "floor_divide", swapped=True)
    __mod__ = _binary("FloorMod", "mod")
    __rmod__ = _binary("FloorMod", "mod", swapped=True)
    __pow__ = _binary("power", "power")
    __rpow__ = _binary("power", "power", swapped=True)
    __lshift__ = _binary("LShift")
    __rlshift__ = _binary("LShift", swapped=True)
    __rshift__ = _binary("RShift")
    __rrshift__ = _binary("RShift", swapped=True)
    __and__ = _binary("BitwiseAnd")
    __rand__ = _binary("BitwiseAnd", swapped=True)
    __or__ = _binary("BitwiseOr")
    __ror__ = _binary("BitwiseOr", swapped=True)
    __xor__ = _binary("BitwiseXor")
    __rxor__ = _binary("BitwiseXor", swapped=True)
    __lt__ = _binary("LT", "less")
    __le__ = _binary("LE", "less_equal")
    __gt__ = _binary("GT", "greater")
    __ge__ = _binary("GE", "greater_equal")

    def __neg__(self) -> Any:
        """Returns the negated value."""
        if self._prim:
            return self * -1
        return _provided.relax_operator("negative")(self)

    def __invert__(self) -> Any:
        """Returns the value with all bits inverted."""
        if not self._prim:
            raise TypeError(f"`~` needs a scalar, not a value of type {self.ty!r}")
        return _provided.inverted(self)

    def __eq__(self, other: object) -> Any:
        """Returns a comparison for scalars, which is true if both are the same object. Other expressions compare by
        identity."""
        if self is other or not self._prim:
            return self is other if not self._prim else _compared(self, other, True)
        return _compared(self, other, True)

    def __ne__(self, other: object) -> Any:
        """Returns the opposite of `==`."""
        return self is not other if not self._prim else _compared(self, other, False)

    def __bool__(self) -> bool:
        """Raises `ValueError`, because the truth value of an expression is unknown while a module is built."""
        raise ValueError("Cannot use and / or / not operator to Expr, hint: use tvm.tirx.all / tvm.tirx.any instead")

    def astype(self, dtype: str) -> Any:
        """Converts the expression to a data type."""
        if self._prim:
            return _provided.converted(dtype, self)
        return _provided.relax_operator("astype")(self, dtype)


class _Callable:
    """An expression that can be called, such as a Relax function."""

    __slots__ = ()

    def __call__(self, *args: Expr, attrs: Mapping[str, Any] | None = None) -> Call:
        """Returns a call of this expression."""
        return Call(cast("Expr", self), args, attrs=attrs)


class EqualOp:
    """The result of `a == b` for two scalars: a comparison, whose truth value is true for the same object."""

    __slots__ = ("a", "b", "is_equal")

    def __init__(self, a: Expr, b: object, is_equal: bool) -> None:
        """Creates a comparison of both sides, which is `!=` if `is_equal` is false."""
        self.a, self.b, self.is_equal = a, b, is_equal

    def __bool__(self) -> bool:
        """Returns true if both sides are the same object, or the opposite for `!=`."""
        return (self.a is self.b) == self.is_equal

    def asobject(self) -> Expr:
        """Converts the comparison to an expression."""
        return cast(Expr, _provided.comparison(self.a, self.b, self.is_equal))

    def __repr__(self) -> str:
        """Formats both sides."""
        return f"{'EqualOp' if self.is_equal else 'NotEqualOp'}({self.a!r}, {self.b!r})"


def _compared(a: Expr, b: object, is_equal: bool) -> Any:
    if not (b._prim if isinstance(b, Expr) else is_number(b)):
        return not is_equal
    return EqualOp(a, b, is_equal)


class Var(_Callable, ExprWithOp):
    """A variable: a parameter, the variable of a binding, or a symbolic variable, which is a scalar."""

    __slots__ = ("name",)
    _is_var = True
    name: str

    def __init__(
        self, name: str | None = None, ty: Type | str | None = None, span: Any = None, *, name_hint: str | None = None
    ) -> None:
        """Creates a variable with a name, and a type if it is known. Variables with equal names are distinct."""
        name = name if name is not None else name_hint
        if not isinstance(name, str):
            raise TypeError(f"the name of a variable must be a str, not {type(name).__name__}")
        self._name = name
        self._ty = MISSING if ty is None else checked_type(ty)

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        if not isinstance(other, Var):
            return False
        return by.variables(self, other, defines) or by.free_variables(self, other)

    @property
    def name_hint(self) -> str:
        """The name."""
        return self.name

    def __getitem__(self, index: Any) -> Expr:
        """Returns an element of a tuple."""
        return super().__getitem__(index)

    def __getattr__(self, name: str) -> Any:
        """Returns a property of a buffer from its type: shape, dtype, strides…"""
        if name.startswith("_") or type(self.ty).__name__ != "BufferType":
            if name in ("shape", "dtype", "strides", "scope", "data", "elem_offset"):
                raise AttributeError(f"{name} is only available on a Var with BufferType")
            raise AttributeError(f"a variable has no attribute {name!r}")
        return getattr(self.ty, name)


class GlobalVar(_Callable, Expr):
    """A function of the module, identified by its name. Equal names are equal."""

    __slots__ = ("name_hint",)
    name_hint: str

    def __init__(self, name_hint: str, ty: Type | None = None) -> None:
        """Creates a reference to the function with this name."""
        if not isinstance(name_hint, str):
            raise TypeError(f"the name of a function must be a str, not {type(name_hint).__name__}")
        self._name_hint = name_hint
        self._ty = MISSING if ty is None else ty

    @property
    def name(self) -> str:
        """The name."""
        return self.name_hint

    def __eq__(self, other: object) -> bool:
        """Returns true if both name the same function."""
        return isinstance(other, GlobalVar) and self.name_hint == other.name_hint

    def __hash__(self) -> int:
        """Hashes the name."""
        return hash(self.name_hint)

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        return type(self) is type(other) and self == other


class Op(Expr):
    """An operator."""

    __slots__ = ("name",)
    name: str
    _known: ClassVar[dict[str, Op]] = {}

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        return self is other

    @staticmethod
    def get(op_name: str) -> Op:
        """Returns the operator named `op_name`, such as `relax.add`; there is one object per operator.

        Raises `AttributeError` for a Relax operator that no plugin declares.
        """
        found = Op._known.get(op_name)
        if found is None:
            check_operator(op_name)
            found = Op._of(op_name)
        return found

    @staticmethod
    def _of(name: str) -> Op:
        """Returns the operator named `name`, declared or not."""
        found = Op._known.get(name)
        if found is None:
            found = Op.__new__(Op)
            found._name = name
            found._ty = MISSING
            Op._known[name] = found
        return found

    @staticmethod
    def list_op_names() -> list[str]:
        """Returns the names of all operators that plugins declare."""
        return sorted(declared())

    def __call__(self, *args: Expr, attrs: Mapping[str, Any] | None = None) -> Call:
        """Returns a call of it."""
        return Call(self, args, attrs=attrs)


class Call(_Callable, ExprWithOp):
    """A call of an operator, of a function of the module, or of a function value."""

    __slots__ = ("args", "attrs", "op", "ty_args")
    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs | None
    ty_args: tuple[Type, ...]

    def __init__(
        self,
        op: Expr | str,
        args: Sequence[Expr],
        attrs: Mapping[str, Any] | None = None,
        ty_args: Sequence[Type] | None = None,
        span: Any = None,
        ret_ty: Type | str | None = None,
    ) -> None:
        """Creates a call from the callee, arguments, attributes of the operator, and type arguments."""
        if isinstance(op, str):
            op = Op.get(op)
        elif not isinstance(op, Expr):
            raise TypeError(f"the callee must be an expression or the name of an operator, not {type(op).__name__}")
        self._op = op
        self._args = tuple(checked_expr(arg, "an argument of a call") for arg in args)
        self._attrs = attrs if attrs is None or isinstance(attrs, Attrs) else Attrs(attrs)
        self._ty_args = tuple(checked_type(ty) for ty in ty_args or ())
        self._ty = MISSING if ret_ty is None else checked_type(ret_ty)


class Tuple(_Callable, ExprWithOp):
    """A tuple."""

    __slots__ = ("fields",)
    fields: tuple[Expr, ...]

    def __init__(self, fields: Iterable[Expr], span: Any = None) -> None:
        """Creates a tuple of the elements."""
        self._fields = tuple(checked_expr(field, "an element of a tuple") for field in fields)
        types = [field.ty for field in self._fields]
        self._ty = MISSING if any(ty is MISSING for ty in types) else TupleType(types)

    def __getitem__(self, index: Any) -> Any:
        """Returns an element, or a tuple of some elements."""
        if isinstance(index, int) and not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"Tuple index out of range: {index} of {len(self.fields)}")
        return self.fields[index]

    def __len__(self) -> int:
        """Returns the number of elements."""
        return len(self.fields)

    def __iter__(self) -> Iterator[Expr]:
        """Iterates over the elements."""
        return iter(self.fields)


class TupleGetItem(_Callable, ExprWithOp):
    """An element of a tuple."""

    __slots__ = ("index", "tuple_value")
    tuple_value: Expr
    index: int

    def __init__(self, tuple_value: Expr, index: int, span: Any = None) -> None:
        """Creates an access from the tuple and the position of the element."""
        self._tuple_value = checked_expr(tuple_value, "a tuple")
        if isinstance(index, bool) or not is_integer(index) or index < 0:
            raise ValueError(f"the index of an element must be 0 or more, not {index!r}")
        self._index = int(index)
        ty = tuple_value.ty
        if isinstance(ty, TupleType) and index >= len(ty.fields):
            raise IndexError(f"Index out of bounds: Tuple {ty!r} has {len(ty.fields)} elements, found index {index}")
        self._ty = ty.fields[index] if isinstance(ty, TupleType) else MISSING


class Constant(ExprWithOp):
    """A constant value."""

    __slots__ = ()


class GenericConst(_Callable, Constant):
    """A constant tensor, or another constant value."""

    __slots__ = ("value",)
    value: Any

    def __init__(self, value: Any, ty: Type, span: Any = None) -> None:
        """Creates a constant from the value and its type."""
        self._value = value
        self._ty = checked_type(ty)

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        return type(self) is type(other) and by.same(self.ty, other.ty) and super()._same(other, by, defines)

    @property
    def data(self) -> Any:
        """The value."""
        return self.value

    def __bool__(self) -> bool:
        """Raises `ValueError`, because a constant does not have a truth value."""
        raise ValueError("a constant cannot be a condition; get its value with `.value.numpy()`")


class StringImm(Constant):
    """A string."""

    __slots__ = ("value",)
    value: str

    def __init__(self, value: str, span: Any = None) -> None:
        """Creates a string from the text."""
        if not isinstance(value, str):
            raise TypeError(f"a string must be a str, not {type(value).__name__}")
        self._value = value
        self._ty = StringType()

    def __eq__(self, other: object) -> bool:
        """Returns true if both are the same text."""
        return self.value == (other.value if isinstance(other, StringImm) else other)

    def __ne__(self, other: object) -> bool:
        """Returns true if the text differs."""
        return not self == other

    def __hash__(self) -> int:
        """Hashes the text."""
        return hash(self.value)

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        return type(self) is type(other) and self == other


class DataTypeImm(Constant):
    """A data type as a value."""

    __slots__ = ("value",)
    value: str

    def __init__(self, value: str | PrimType, span: Any = None) -> None:
        """Creates a value from the name of the data type."""
        self._value = str(PrimType(value).dtype)
        self._ty = Type()


class OpaqueExpr(Expr):
    """An object used as an argument of a call, such as a virtual device."""

    __slots__ = ("value",)
    value: Any

    def __init__(self, value: AttrObject) -> None:
        """Creates an expression from an attribute."""
        self._value = value
        self._ty = MISSING


class Range(Node):
    """A range of integers: its start and extent."""

    __slots__ = ("extent", "min")
    min: Expr
    extent: Expr

    def __init__(self, begin: Any, end: Any = None, span: Any = None) -> None:
        """Creates a range from the start and the end, which is excluded; with one argument, the range starts at 0."""
        begin, end = (0, begin) if end is None else (begin, end)
        self._min = as_dim(begin, "int32")
        last = as_dim(end, "int32")
        self._extent = last if begin == 0 and isinstance(begin, int) else cast("Expr", cast(Any, last) - self._min)

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: Any = None) -> Range:
        """Creates a range from its start and extent."""
        made = Range.__new__(Range)
        made._min, made._extent = as_dim(min_value, "int32"), as_dim(extent, "int32")
        return made


def checked_expr(value: object, what: str) -> Expr:
    """Returns an expression unchanged, and converts a Python scalar. Raises `TypeError` for anything else."""
    if isinstance(value, Expr):
        return value
    convert = _CONVERSIONS.get(type(value))
    if convert is not None:
        return convert(value)
    asobject = getattr(value, "asobject", None)
    if asobject is not None:
        return cast("Expr", asobject())
    raise TypeError(f"{what} must be an expression, not {type(value).__name__}")


def _converted_scalar(value: Any) -> Expr:
    dtype = "int64" if isinstance(value, int) and not isinstance(value, bool) else None
    return cast(Expr, _provided.scalar(value, dtype))


def _converted_shape(value: Any) -> Expr:
    return Tuple(value)


_CONVERSIONS: dict[type, Callable[[Any], Expr]] = {
    int: _converted_scalar,
    float: _converted_scalar,
    bool: _converted_scalar,
    str: StringImm,
    list: _converted_shape,
    tuple: _converted_shape,
}


def as_dim(value: object, dtype: str = "int64") -> Expr:
    """Converts a dimension: scalar expressions are unchanged, integers get the data type."""
    if isinstance(value, Expr):
        if not value._prim:
            raise TypeError(f"a dimension must be an int or a scalar expression, not a value of type {value.ty!r}")
        return value
    if is_integer(value) and not isinstance(value, bool):
        return cast(Expr, _provided.scalar(int(value), dtype))
    if isinstance(value, EqualOp):
        return value.asobject()
    raise TypeError(f"a dimension must be an int or a scalar expression, not {type(value).__name__}")


def dims_of(shape: Iterable[object]) -> tuple[Expr, ...]:
    """Converts numbers and expressions to dimensions."""
    dims = tuple(as_dim(dim) for dim in shape)
    for dim in dims:
        if str(dim.ty).startswith(("float", "bfloat", "T.float", "T.bfloat")):
            raise IllFormedError(f"the value in ShapeType can only have dtype of int64: {dim} is a {dim.ty}")
    return dims


def is_prim_expr(value: object) -> bool:
    """Returns true if a value is a scalar expression."""
    return isinstance(value, Expr) and value._prim


def is_prim_var(value: object) -> bool:
    """Returns true if a value is a scalar variable."""
    return isinstance(value, Var) and value._prim
