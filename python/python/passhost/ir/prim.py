"""Scalar expressions. Constant arithmetic is evaluated; `n + 0` and `n * 1` simplify to `n`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from passhost import _provided
from passhost._numpy import is_integer, is_number, is_real, is_scalar
from passhost.ir.expr import Call, Constant, EqualOp, Expr, ExprWithOp, Op, Var, checked_expr
from passhost.ir.type import PrimType, Type

_TYPES: dict[str, PrimType] = {}


def prim_type(dtype: str) -> PrimType:
    """Returns the type of scalars of a data type; there is one object per type."""
    found = _TYPES.get(dtype)
    if found is None:
        found = _TYPES[dtype] = PrimType(dtype)
    return found


class IntImm(Constant):
    """An integer constant."""

    __slots__ = ("value",)
    value: int

    def __init__(self, dtype: str | PrimType, value: int, span: Any = None) -> None:
        """Creates a constant from a data type and a value."""
        if not is_integer(value):
            raise TypeError(f"an IntImm takes an int, not {type(value).__name__}")
        ty = prim_type(dtype) if isinstance(dtype, str) else dtype
        self._value, self._ty = _in_range(int(value), ty), ty

    def __int__(self) -> int:
        """Returns the value."""
        return self.value

    __index__ = __int__

    def __hash__(self) -> int:
        """Hashes the value."""
        return hash(self.value)

    def __bool__(self) -> bool:
        """Returns true if the value is not 0."""
        return self.value != 0

    def __eq__(self, other: object) -> Any:
        """Compares values if the other side is an integer constant; returns a comparison for any other scalar."""
        return self._to(other, "EQ")

    def __ne__(self, other: object) -> Any:
        """Returns the opposite of `==`."""
        return self._to(other, "NE")

    def _to(self, other: object, name: str) -> Any:
        if isinstance(other, IntImm):
            return _number("bool", _FOLD[name](self.value, other.value))
        if is_number(other):
            return _number("bool", bool(_FOLD[name](self.value, other)))
        if isinstance(other, Expr) and other._prim:
            return EqualOp(self, other, name == "EQ")
        return name == "NE"


class FloatImm(Constant):
    """A floating-point constant."""

    __slots__ = ("value",)
    value: float

    def __init__(self, dtype: str | PrimType, value: float, span: Any = None) -> None:
        """Creates a constant from a data type and a value."""
        if not is_real(value):
            raise TypeError(f"a FloatImm takes a float, not {type(value).__name__}")
        self._value = float(value)
        self._ty = prim_type(dtype) if isinstance(dtype, str) else dtype

    def __float__(self) -> float:
        """Returns the value."""
        return self.value


class BinaryOpExpr(ExprWithOp):
    """A binary operation on scalars."""

    __slots__ = ("a", "b")
    a: Expr
    b: Expr

    def __init__(self, a: Any, b: Any, span: Any = None) -> None:
        """Creates an operation on both operands, which must have the same type."""
        a, b = checked_expr(a, "an operand"), checked_expr(b, "an operand")
        if a.ty != b.ty:
            raise TypeError(f"mismatched types. {a.ty} vs. {b.ty}")
        self._a, self._b = a, b
        self._ty = self._result(a.ty)

    @staticmethod
    def _result(ty: Type) -> Type:
        return ty


class CmpExpr(BinaryOpExpr):
    """A comparison."""

    __slots__ = ()

    @staticmethod
    def _result(ty: Type) -> Type:
        return prim_type("bool")


class LogicalExpr(BinaryOpExpr):
    """A binary operation on conditions."""

    __slots__ = ()

    @staticmethod
    def _result(ty: Type) -> Type:
        return prim_type("bool")


class Add(BinaryOpExpr):
    """A sum."""

    __slots__ = ()


class Sub(BinaryOpExpr):
    """A difference."""

    __slots__ = ()


class Mul(BinaryOpExpr):
    """A product."""

    __slots__ = ()


class Div(BinaryOpExpr):
    """A quotient; integers truncate."""

    __slots__ = ()


class Mod(BinaryOpExpr):
    """The remainder of truncated division."""

    __slots__ = ()


class FloorDiv(BinaryOpExpr):
    """A quotient, rounded down."""

    __slots__ = ()


class FloorMod(BinaryOpExpr):
    """The remainder of floored division."""

    __slots__ = ()


class Min(BinaryOpExpr):
    """The minimum."""

    __slots__ = ()


class Max(BinaryOpExpr):
    """The maximum."""

    __slots__ = ()


class LShift(BinaryOpExpr):
    """A left shift."""

    __slots__ = ()


class RShift(BinaryOpExpr):
    """A right shift."""

    __slots__ = ()


class BitwiseAnd(BinaryOpExpr):
    """A bitwise and."""

    __slots__ = ()


class BitwiseOr(BinaryOpExpr):
    """A bitwise or."""

    __slots__ = ()


class BitwiseXor(BinaryOpExpr):
    """A bitwise exclusive or."""

    __slots__ = ()


class EQ(CmpExpr):
    """The comparison `==`."""

    __slots__ = ()


class NE(CmpExpr):
    """The comparison `!=`."""

    __slots__ = ()


class LT(CmpExpr):
    """The comparison `<`."""

    __slots__ = ()


class LE(CmpExpr):
    """The comparison `<=`."""

    __slots__ = ()


class GT(CmpExpr):
    """The comparison `>`."""

    __slots__ = ()


class GE(CmpExpr):
    """The comparison `>=`."""

    __slots__ = ()


class And(LogicalExpr):
    """A conjunction."""

    __slots__ = ()


class Or(LogicalExpr):
    """A disjunction."""

    __slots__ = ()


class Not(ExprWithOp):
    """A negation."""

    __slots__ = ("a",)
    a: Expr

    def __init__(self, a: Any, span: Any = None) -> None:
        """Creates the negation of a condition."""
        self._a, self._ty = checked_expr(a, "an operand"), prim_type("bool")


class BitwiseNot(ExprWithOp):
    """A bitwise complement."""

    __slots__ = ("a",)
    a: Expr

    def __init__(self, a: Any, span: Any = None) -> None:
        """Creates the complement of an integer."""
        self._a = checked_expr(a, "an operand")
        self._ty = self._a.ty


class Cast(ExprWithOp):
    """A conversion of a scalar to a data type."""

    __slots__ = ("value",)
    value: Expr

    def __init__(self, dtype: str | PrimType, value: Any, span: Any = None) -> None:
        """Creates a conversion from the new data type and the value."""
        self._value, self._ty = checked_expr(value, "a value"), PrimType(dtype)


class Select(ExprWithOp):
    """A selection between two values, which are both evaluated."""

    __slots__ = ("condition", "false_value", "true_value")
    condition: Expr
    true_value: Expr
    false_value: Expr

    def __init__(self, condition: Any, true_value: Any, false_value: Any, span: Any = None) -> None:
        """Creates a selection from a condition, the value if it is true, and the value if it is false."""
        self._condition = checked_expr(condition, "a condition")
        self._true_value = checked_expr(true_value, "a value")
        self._false_value = checked_expr(false_value, "a value")
        self._ty = self._true_value.ty


class Ramp(ExprWithOp):
    """A vector of equally spaced numbers."""

    __slots__ = ("base", "lanes", "stride")
    base: Expr
    stride: Expr
    lanes: Expr

    def __init__(self, base: Any, stride: Any, lanes: Any, span: Any = None) -> None:
        """Creates a vector from the first number, the stride, and the number of lanes."""
        self._base, self._stride = checked_expr(base, "a base"), checked_expr(stride, "a stride")
        self._lanes = scalar(lanes, "int32") if isinstance(lanes, int) else lanes
        self._ty = vector_type(self._base.ty, self._lanes)


class Broadcast(ExprWithOp):
    """A vector of equal numbers."""

    __slots__ = ("lanes", "value")
    value: Expr
    lanes: Expr

    def __init__(self, value: Any, lanes: Any, span: Any = None) -> None:
        """Creates a vector from the number and the number of lanes."""
        self._value = checked_expr(value, "a value")
        self._lanes = scalar(lanes, "int32") if isinstance(lanes, int) else lanes
        self._ty = vector_type(self._value.ty, self._lanes)


class Shuffle(ExprWithOp):
    """A vector of elements selected from vectors."""

    __slots__ = ("indices", "vectors")
    vectors: tuple[Expr, ...]
    indices: tuple[Expr, ...]

    def __init__(self, vectors: list[Expr], indices: list[Any], span: Any = None) -> None:
        """Creates a vector from vectors, and positions in their concatenation."""
        self._vectors, self._indices = tuple(vectors), tuple(checked_expr(at, "an index") for at in indices)
        self._ty = vector_type(self._vectors[0].ty, scalar(len(indices), "int32"))


class Let(ExprWithOp):
    """An expression with a local variable."""

    __slots__ = ("body", "value", "var")
    var: Var
    value: Expr
    body: Expr

    def __init__(self, var: Var, value: Any, body: Any, span: Any = None) -> None:
        """Creates an expression from the variable, its value, and the expression that uses it."""
        self._var, self._value, self._body = var, checked_expr(value, "a value"), checked_expr(body, "an expression")
        self._ty = self._body.ty


def vector_type(element: Type, lanes: Expr) -> PrimType:
    """Returns the type of a vector."""
    base = str(cast(PrimType, element).dtype)
    number = int(lanes) if isinstance(lanes, IntImm) else 1
    return prim_type(base if number == 1 else f"{base}x{number}")


BINARY: dict[str, type[BinaryOpExpr]] = {
    cls.__name__: cls
    for cls in (
        *(Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, LShift, RShift, BitwiseAnd, BitwiseOr, BitwiseXor),
        *(EQ, NE, LT, LE, GT, GE, And, Or),
    )
}

_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b if b else None,
    "FloorMod": lambda a, b: a % b if b else None,
    "Min": min,
    "Max": max,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "And": lambda a, b: bool(a) and bool(b),
    "Or": lambda a, b: bool(a) or bool(b),
}


def _in_range(value: int, ty: PrimType) -> int:
    bits = ty.bits
    low, high = (
        (0, (1 << bits) - 1) if ty.dtype.startswith(("u", "bool")) else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    )
    if not low <= value <= high:
        raise ValueError(f"{value} is out of range of {ty.dtype}")
    return value


_NUMBERS: dict[tuple[str, int], IntImm] = {}


def _number(dtype: str, value: Any) -> Expr:
    if prim_type(dtype).dtype.startswith(("float", "bfloat")):
        return FloatImm(dtype, value)
    key = (dtype, int(value))
    known = _NUMBERS.get(key)
    if known is None:
        known = IntImm(dtype, int(value))
        if len(_NUMBERS) < 4096:
            _NUMBERS[key] = known
    return known


def scalar(value: Any, dtype: str | None = None) -> Expr:
    """Returns a number of a data type; by default, an int is int32 and a float is float32."""
    if isinstance(value, Expr):
        return value
    if dtype is None:
        if is_scalar(value):
            dtype = str(value.dtype)
        else:
            dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
    return _number(str(dtype), value.item() if is_scalar(value) else value)


def as_operand(value: object, other: Expr) -> Any:
    """Returns a scalar; a Python number gets the type of the other operand."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, EqualOp):
        return value.asobject()
    if not is_real(value):
        return NotImplemented
    dtype = str(cast(PrimType, other.ty).dtype)
    whole = isinstance(value, int) or (is_scalar(value) and value.dtype.kind in "biu")
    if not whole and not dtype.startswith(("float", "bfloat")):
        dtype = "float32"
    return scalar(value, dtype)


def operands(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Converts two scalars to the wider of their types; a Python number gets the type of the other operand.

    Raises `TypeError` if an operand is not a scalar.
    """
    a = a.asobject() if isinstance(a, EqualOp) else a
    one = a if isinstance(a, Expr) else as_operand(a, b) if isinstance(b, Expr) else scalar(a)
    two = b if isinstance(b, Expr) else as_operand(b, one) if isinstance(one, Expr) else b
    for given, made in ((a, one), (b, two)):
        if not isinstance(made, Expr):
            raise TypeError(f"an operand must be a scalar, not {type(given).__name__}")
    return same_type(one, two)


_OF_INTEGERS = frozenset(("FloorDiv", "FloorMod", "LShift", "RShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"))


def operation(name: str, a: Expr, b: Expr) -> Expr:
    """Returns an operation requested by a caller. Raises `TypeError` if an operand of an integer operation is not an
    integer."""
    made = binary(name, a, b)
    if name in _OF_INTEGERS and any(str(side.ty).startswith(("float", "bfloat")) for side in (a, b)):
        raise TypeError(f"{name} takes integers, not {a.ty} and {b.ty}")
    return made


def binary(name: str, a: Expr, b: Expr) -> Expr:
    """Returns an operation, simplified if possible."""
    a, b = same_type(a, b)
    if name == "power":
        return intrinsic("pow", a, b)
    dtype = str(cast(PrimType, a.ty).dtype)
    if name == "Div" and not dtype.startswith(("float", "bfloat")):
        raise RuntimeError(
            "TVM supports multiple types of integer divisions, please call div, indexdiv/indexmod, floordiv/floormod "
            "or truncdiv/truncmod directly to avoid ambiguity in the code."
        )
    x, y = _value(a), _value(b)
    if x is not None and y is not None and name in _FOLD:
        value = _FOLD[name](x, y)
        if value is not None:
            cls = BINARY[name]
            try:
                return _number("bool" if issubclass(cls, CmpExpr | LogicalExpr) else dtype, value)
            except ValueError:
                return cls(a, b)
    if isinstance(x, int) or isinstance(y, int):
        known = _simple(name, a, b, x, y)
        if known is not None:
            return known
    return BINARY[name](a, b)


def folded(expr: Expr) -> Expr:
    """Returns the expression with constant parts evaluated."""
    if isinstance(expr, BinaryOpExpr):
        return binary(type(expr).__name__, folded(expr.a), folded(expr.b))
    return convert(cast(PrimType, expr.ty), folded(expr.value)) if isinstance(expr, Cast) else expr


def _value(expr: Expr) -> int | float | None:
    return expr.value if isinstance(expr, IntImm | FloatImm) else None


def _simple(name: str, a: Expr, b: Expr, x: Any, y: Any) -> Expr | None:
    if (name == "Add" and x == 0) or (name == "Mul" and x == 1):
        return b
    if (name in ("Add", "Sub") and y == 0) or (name in ("Mul", "FloorDiv", "Div") and y == 1):
        return a
    if (name == "Mul" and (x == 0 or y == 0)) or (name in ("FloorDiv", "FloorMod") and x == 0):
        return a if x == 0 else b
    if name == "FloorMod" and y == 1:
        return _number(str(cast(PrimType, a.ty).dtype), 0)
    if name == "And" and (x is not None or y is not None):
        return (b if x else a) if x is not None else (a if y else b)
    if name == "Or" and (x is not None or y is not None):
        return (a if x else b) if x is not None else (b if y else a)
    return None


def same_type(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Converts two scalars to the wider of their types."""
    if a.ty is b.ty or a.ty == b.ty:
        return a, b
    one, two = cast(PrimType, a.ty), cast(PrimType, b.ty)
    if not isinstance(one, PrimType) or not isinstance(two, PrimType):
        raise TypeError(f"mismatched types. {a.ty} vs. {b.ty}")
    if wider(one, two) is two:
        return convert(str(two.dtype), a), b
    return a, convert(str(one.dtype), b)


def wider(a: PrimType, b: PrimType) -> PrimType:
    """Returns the type of an operation on values of two types: a float before an integer, then the one with more
    bits, then the first."""
    return b if _rank(a) < _rank(b) else a


def _rank(ty: PrimType) -> tuple[bool, bool, int]:
    return ty.dtype.startswith(("float", "bfloat")), ty.dtype != "bool", ty.bits


def convert(dtype: str | PrimType, value: Any) -> Expr:
    """Converts a scalar to a data type; constants are converted immediately."""
    ty = prim_type(str(dtype))
    value = value if isinstance(value, Expr) else scalar(value)
    if value.ty == ty:
        return cast(Expr, value)
    number = _value(value)
    if number is not None and (isinstance(number, int) or ty.dtype.startswith(("float", "bfloat"))):
        return _number(str(ty.dtype), number)
    return Cast(ty, value)


def intrinsic(name: str, *args: Any, dtype: str | None = None) -> Expr:
    """Returns a call of a TIR operator."""
    exprs = [scalar(arg) for arg in args]
    ret = exprs[0].ty if dtype is None else prim_type(dtype)
    return Call(Op._of(f"tirx.{name}"), exprs, ret_ty=ret)


def _arithmetic(name: str, own: Expr, other: object, swapped: bool) -> Any:
    made = as_operand(other, own)
    if made is NotImplemented:
        return NotImplemented
    return operation(name, made, own) if swapped else operation(name, own, made)


def _comparison(a: Expr, b: object, is_equal: bool) -> Expr:
    return binary("EQ" if is_equal else "NE", a, as_operand(b, a))


_provided.scalar = scalar
_provided.arithmetic = _arithmetic
_provided.comparison = _comparison
_provided.inverted = BitwiseNot
_provided.converted = convert
