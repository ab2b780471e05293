"""Scalar expressions. Arithmetic of numbers is computed; `n + 0` and `n * 1` are `n`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from passhost._numpy import is_integer, is_number, is_real, is_scalar
from passhost.ir.expr import Call, Constant, EqualOp, Expr, ExprWithOp, Op, Var, checked_expr
from passhost.ir.type import PrimType, Type

_TYPES: dict[str, PrimType] = {}


def prim_type(dtype: str) -> PrimType:
    """The type of scalars of a data type; there is one object of each."""
    found = _TYPES.get(dtype)
    if found is None:
        found = _TYPES[dtype] = PrimType(dtype)
    return found


class IntImm(Constant):
    """An integer."""

    __slots__ = ("value",)
    value: int

    def __init__(self, dtype: str | PrimType, value: int, span: Any = None) -> None:
        """Of a data type."""
        if not is_integer(value):
            raise TypeError(f"an IntImm has an int, not {type(value).__name__}")
        ty = prim_type(dtype) if isinstance(dtype, str) else dtype
        self._value, self._ty = _in_range(int(value), ty), ty

    def __int__(self) -> int:
        """Its value."""
        return self.value

    __index__ = __int__

    def __hash__(self) -> int:
        """That of its value."""
        return hash(self.value)

    def __bool__(self) -> bool:
        """Whether it is not 0."""
        return self.value != 0

    def __eq__(self, other: object) -> Any:
        """Whether the values are equal, as an IntImm; of another scalar, a comparison."""
        return self._to(other, "EQ")

    def __ne__(self, other: object) -> Any:
        """The opposite."""
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
    """A float."""

    __slots__ = ("value",)
    value: float

    def __init__(self, dtype: str | PrimType, value: float, span: Any = None) -> None:
        """Of a data type."""
        if not is_real(value):
            raise TypeError(f"a FloatImm has a float, not {type(value).__name__}")
        self._value = float(value)
        self._ty = prim_type(dtype) if isinstance(dtype, str) else dtype

    def __float__(self) -> float:
        """Its value."""
        return self.value


class BinaryOpExpr(ExprWithOp):
    """An operation on two scalars."""

    __slots__ = ("a", "b")
    a: Expr
    b: Expr

    def __init__(self, a: Any, b: Any, span: Any = None) -> None:
        """Of both sides, which have one type."""
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
    """An operation on two conditions."""

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
    """A quotient, truncated if it is one of integers."""

    __slots__ = ()


class Mod(BinaryOpExpr):
    """The remainder of a truncated quotient."""

    __slots__ = ()


class FloorDiv(BinaryOpExpr):
    """A quotient, rounded down."""

    __slots__ = ()


class FloorMod(BinaryOpExpr):
    """The remainder of that."""

    __slots__ = ()


class Min(BinaryOpExpr):
    """The smaller one."""

    __slots__ = ()


class Max(BinaryOpExpr):
    """The larger one."""

    __slots__ = ()


class LShift(BinaryOpExpr):
    """Bits shifted left."""

    __slots__ = ()


class RShift(BinaryOpExpr):
    """Bits shifted right."""

    __slots__ = ()


class BitwiseAnd(BinaryOpExpr):
    """Bits of both."""

    __slots__ = ()


class BitwiseOr(BinaryOpExpr):
    """Bits of either."""

    __slots__ = ()


class BitwiseXor(BinaryOpExpr):
    """Bits of one of them."""

    __slots__ = ()


class EQ(CmpExpr):
    """Equal."""

    __slots__ = ()


class NE(CmpExpr):
    """Not equal."""

    __slots__ = ()


class LT(CmpExpr):
    """Less."""

    __slots__ = ()


class LE(CmpExpr):
    """Less or equal."""

    __slots__ = ()


class GT(CmpExpr):
    """Greater."""

    __slots__ = ()


class GE(CmpExpr):
    """Greater or equal."""

    __slots__ = ()


class And(LogicalExpr):
    """Both."""

    __slots__ = ()


class Or(LogicalExpr):
    """Either."""

    __slots__ = ()


class Not(ExprWithOp):
    """Not."""

    __slots__ = ("a",)
    a: Expr

    def __init__(self, a: Any, span: Any = None) -> None:
        """Of a condition."""
        self._a, self._ty = checked_expr(a, "an operand"), prim_type("bool")


class BitwiseNot(ExprWithOp):
    """All bits inverted."""

    __slots__ = ("a",)
    a: Expr

    def __init__(self, a: Any, span: Any = None) -> None:
        """Of an integer."""
        self._a = checked_expr(a, "an operand")
        self._ty = self._a.ty


class Cast(ExprWithOp):
    """A scalar, converted to a data type."""

    __slots__ = ("value",)
    value: Expr

    def __init__(self, dtype: str | PrimType, value: Any, span: Any = None) -> None:
        """To a data type."""
        self._value, self._ty = checked_expr(value, "a value"), PrimType(dtype)


class Select(ExprWithOp):
    """One of two values, of which both are evaluated."""

    __slots__ = ("condition", "false_value", "true_value")
    condition: Expr
    true_value: Expr
    false_value: Expr

    def __init__(self, condition: Any, true_value: Any, false_value: Any, span: Any = None) -> None:
        """Of a condition, and the values where it holds and where it does not."""
        self._condition = checked_expr(condition, "a condition")
        self._true_value = checked_expr(true_value, "a value")
        self._false_value = checked_expr(false_value, "a value")
        self._ty = self._true_value.ty


class Ramp(ExprWithOp):
    """A vector of numbers at equal distances."""

    __slots__ = ("base", "lanes", "stride")
    base: Expr
    stride: Expr
    lanes: Expr

    def __init__(self, base: Any, stride: Any, lanes: Any, span: Any = None) -> None:
        """Of the first number, the distance, and how many there are."""
        self._base, self._stride = checked_expr(base, "a base"), checked_expr(stride, "a stride")
        self._lanes = scalar(lanes, "int32") if isinstance(lanes, int) else lanes
        self._ty = vector_type(self._base.ty, self._lanes)


class Broadcast(ExprWithOp):
    """A vector of equal numbers."""

    __slots__ = ("lanes", "value")
    value: Expr
    lanes: Expr

    def __init__(self, value: Any, lanes: Any, span: Any = None) -> None:
        """Of the number, and how many there are."""
        self._value = checked_expr(value, "a value")
        self._lanes = scalar(lanes, "int32") if isinstance(lanes, int) else lanes
        self._ty = vector_type(self._value.ty, self._lanes)


class Shuffle(ExprWithOp):
    """A vector of elements of vectors."""

    __slots__ = ("indices", "vectors")
    vectors: tuple[Expr, ...]
    indices: tuple[Expr, ...]

    def __init__(self, vectors: list[Expr], indices: list[Any], span: Any = None) -> None:
        """Of vectors, and positions in all of them together."""
        self._vectors, self._indices = tuple(vectors), tuple(checked_expr(at, "an index") for at in indices)
        self._ty = vector_type(self._vectors[0].ty, scalar(len(indices), "int32"))


class Let(ExprWithOp):
    """A value in which a variable has another value."""

    __slots__ = ("body", "value", "var")
    var: Var
    value: Expr
    body: Expr

    def __init__(self, var: Var, value: Any, body: Any, span: Any = None) -> None:
        """Of the variable, its value, and the expression that uses it."""
        self._var, self._value, self._body = var, checked_expr(value, "a value"), checked_expr(body, "an expression")
        self._ty = self._body.ty


def vector_type(element: Type, lanes: Expr) -> PrimType:
    """The type of a vector."""
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
    """A number of a data type; by itself, an int is int32, a float float32."""
    if isinstance(value, Expr):
        return value
    if dtype is None:
        if is_scalar(value):
            dtype = str(value.dtype)
        else:
            dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
    return _number(str(dtype), value.item() if is_scalar(value) else value)


def as_operand(value: object, other: Expr) -> Any:
    """A scalar; a number of Python has the type of the other operand."""
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
    """Two scalars in the wider type of them; a number of Python has the type of the other one.

    Raises `TypeError` if one is no scalar.
    """
    a = a.asobject() if isinstance(a, EqualOp) else a
    one = a if isinstance(a, Expr) else as_operand(a, b) if isinstance(b, Expr) else scalar(a)
    two = b if isinstance(b, Expr) else as_operand(b, one) if isinstance(one, Expr) else b
    for given, made in ((a, one), (b, two)):
        if not isinstance(made, Expr):
            raise TypeError(f"an operand is a scalar, not {type(given).__name__}")
    return same_type(one, two)


_OF_INTEGERS = frozenset(("FloorDiv", "FloorMod", "LShift", "RShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"))


def operation(name: str, a: Expr, b: Expr) -> Expr:
    """An operation that somebody asks for. Raises `TypeError` if it is one of integers, and these are none."""
    made = binary(name, a, b)
    if name in _OF_INTEGERS and any(str(side.ty).startswith(("float", "bfloat")) for side in (a, b)):
        raise TypeError(f"{name} takes integers, not {a.ty} and {b.ty}")
    return made


def binary(name: str, a: Expr, b: Expr) -> Expr:
    """An operation, or what is known of it."""
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
    """The expression with what is known of it computed."""
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
    """Both in the wider type of them."""
    if a.ty is b.ty or a.ty == b.ty:
        return a, b
    one, two = cast(PrimType, a.ty), cast(PrimType, b.ty)
    if not isinstance(one, PrimType) or not isinstance(two, PrimType):
        raise TypeError(f"mismatched types. {a.ty} vs. {b.ty}")
    if _rank(one) < _rank(two):
        return convert(str(two.dtype), a), b
    return a, convert(str(one.dtype), b)


def _rank(ty: PrimType) -> tuple[bool, bool, int]:
    return ty.dtype.startswith(("float", "bfloat")), ty.dtype != "bool", ty.bits


def convert(dtype: str | PrimType, value: Any) -> Expr:
    """A scalar, converted to a data type; a number is computed."""
    ty = prim_type(str(dtype))
    value = value if isinstance(value, Expr) else scalar(value)
    if value.ty == ty:
        return cast(Expr, value)
    number = _value(value)
    if number is not None and (isinstance(number, int) or ty.dtype.startswith(("float", "bfloat"))):
        return _number(str(ty.dtype), number)
    return Cast(ty, value)


def intrinsic(name: str, *args: Any, dtype: str | None = None) -> Expr:
    """A call of an operator of TIR."""
    exprs = [scalar(arg) for arg in args]
    ret = exprs[0].ty if dtype is None else prim_type(dtype)
    return Call(Op._of(f"tirx.{name}"), exprs, ret_ty=ret)
