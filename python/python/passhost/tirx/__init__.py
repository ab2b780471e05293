"""TIR: scalar expressions and functions."""

from __future__ import annotations

from typing import Any

from passhost.ir import prim as _prim
from passhost.ir.expr import Call, Expr, Op, Range, StringImm, Var, checked_expr
from passhost.ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BitwiseAnd,
    BitwiseNot,
    BitwiseOr,
    BitwiseXor,
    Broadcast,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    LShift,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    RShift,
    Select,
    Shuffle,
    Sub,
)
from passhost.ir.type import PrimType
from passhost.tirx import transform
from passhost.tirx.buffer import BufferType
from passhost.tirx.function import PrimFunc
from passhost.tirx.math import FUNCTIONS, function
from passhost.tirx.stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    Return,
    SeqStmt,
    Stmt,
    While,
    is_buffer_var,
    stmt_list,
)

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "AllocBuffer",
    "And",
    "AssertStmt",
    "AttrStmt",
    "Bind",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Broadcast",
    "BufferLoad",
    "BufferRegion",
    "BufferStore",
    "BufferType",
    "Call",
    "Cast",
    "DeclBuffer",
    "Div",
    "Evaluate",
    "Expr",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "For",
    "ForKind",
    "IfThenElse",
    "IntImm",
    "IterVar",
    "LShift",
    "Let",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "PrimFunc",
    "PrimType",
    "RShift",
    "Ramp",
    "Range",
    "Return",
    "Select",
    "SeqStmt",
    "Shuffle",
    "Stmt",
    "StringImm",
    "Sub",
    "Var",
    "While",
    "all",
    "any",
    "call_extern",
    "call_intrin",
    "ceildiv",
    "const",
    "div",
    "floordiv",
    "floormod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "is_buffer_var",
    "max",
    "min",
    "stmt_list",
    "transform",
    "truncdiv",
    "truncmod",
    "var",
]


def var(name: str = "tindex", dtype: str = "int32", span: Any = None) -> Var:
    """Returns a new variable."""
    return Var(name, dtype)


def const(value: Any, dtype: str | None = None) -> Expr:
    """Returns a number of a data type; by default, an int is int32 and a float is float32."""
    return _prim.scalar(value, dtype)


def floordiv(a: Any, b: Any, span: Any = None) -> Expr:
    """Returns the quotient, rounded down."""
    return _prim.operation("FloorDiv", *_prim.operands(a, b))


def floormod(a: Any, b: Any, span: Any = None) -> Expr:
    """Returns the remainder of floored division."""
    return _prim.operation("FloorMod", *_prim.operands(a, b))


indexdiv, indexmod = floordiv, floormod


def truncdiv(a: Any, b: Any, span: Any = None) -> Expr:
    """Returns the quotient, truncated."""
    return Div(*_prim.operands(a, b))


def truncmod(a: Any, b: Any, span: Any = None) -> Expr:
    """Returns the remainder of truncated division."""
    return Mod(*_prim.operands(a, b))


def div(a: Any, b: Any, span: Any = None) -> Expr:
    """Returns the quotient, as in C."""
    return Div(*_prim.operands(a, b))


def ceildiv(a: Any, b: Any, span: Any = None) -> Expr:
    """Returns the quotient, rounded up."""
    a, b = _prim.operands(a, b)
    return floordiv(a + (b - 1), b)


def min(a: Any, b: Any, span: Any = None) -> Expr:
    """Returns the minimum of two values."""
    return _prim.operation("Min", *_prim.operands(a, b))


def max(a: Any, b: Any, span: Any = None) -> Expr:
    """Returns the maximum of two values."""
    return _prim.operation("Max", *_prim.operands(a, b))


def all(*args: Any, span: Any = None) -> Expr:
    """Returns true if all conditions hold."""
    return _joined("And", args)


def any(*args: Any, span: Any = None) -> Expr:
    """Returns true if at least one condition holds."""
    return _joined("Or", args)


def _joined(name: str, args: tuple[Any, ...]) -> Expr:
    if not args:
        raise ValueError("Any must take at least 1 argument")
    made = checked_expr(args[0], "a condition")
    for arg in args[1:]:
        made = _prim.operation(name, made, checked_expr(arg, "a condition"))
    return made


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> Expr:
    """Returns one of two values; only that value is evaluated."""
    then, other = _prim.operands(t, f)
    return Call(Op._of("tirx.if_then_else"), [checked_expr(cond, "a condition"), then, other], ret_ty=then.ty)


def call_intrin(dtype: str | PrimType, func_name: str | Op, *args: Any, **_options: Any) -> Call:
    """Returns a call of a TIR operator."""
    op = func_name if isinstance(func_name, Op) else Op._of(func_name)
    return Call(op, [checked_expr(arg, "an argument") for arg in args], ret_ty=PrimType(dtype))


def call_extern(dtype: str | PrimType, func_name: str, *args: Any, **_options: Any) -> Call:
    """Returns a call of an external function."""
    return call_intrin(dtype, "tirx.call_extern", StringImm(func_name), *args)


def call_packed(*args: Any, span: Any = None) -> Call:
    """Returns a call of a packed function, by name."""
    return call_intrin(
        "int32", "tirx.tvm_call_packed", *(StringImm(arg) if isinstance(arg, str) else arg for arg in args)
    )


def call_pure_extern(dtype: str | PrimType, func_name: str, *args: Any, span: Any = None) -> Call:
    """Returns a call of an external function without effects."""
    return call_intrin(dtype, "tirx.call_pure_extern", StringImm(func_name), *args)


def shift_left(x: Any, y: Any, span: Any = None) -> Expr:
    """Returns the left shift."""
    return _prim.operation("LShift", *_prim.operands(x, y))


def shift_right(x: Any, y: Any, span: Any = None) -> Expr:
    """Returns the right shift."""
    return _prim.operation("RShift", *_prim.operands(x, y))


def bitwise_and(x: Any, y: Any, span: Any = None) -> Expr:
    """Returns the bitwise and."""
    return _prim.operation("BitwiseAnd", *_prim.operands(x, y))


def bitwise_or(x: Any, y: Any, span: Any = None) -> Expr:
    """Returns the bitwise or."""
    return _prim.operation("BitwiseOr", *_prim.operands(x, y))


def bitwise_xor(x: Any, y: Any, span: Any = None) -> Expr:
    """Returns the bitwise exclusive or."""
    return _prim.operation("BitwiseXor", *_prim.operands(x, y))


def stmt_seq(*args: Any) -> Stmt:
    """Returns a sequence of statements; expressions become `Evaluate` statements."""
    made = [arg if isinstance(arg, Stmt) else Evaluate(arg) for arg in args]
    return made[0] if len(made) == 1 else SeqStmt(made)


def __getattr__(name: str) -> Any:
    """Returns a scalar function."""
    if name not in FUNCTIONS:
        raise AttributeError(f"module 'passhost.tirx' has no attribute {name!r}")
    return function(name)
