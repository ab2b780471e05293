"""Prints expressions, types and blocks outside of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost._tensor import Tensor
from passhost.ir import expr as e
from passhost.ir import prim as p
from passhost.ir import type as t
from passhost.ir._node import Node, fields_of

SIGNS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "FloorDiv": "//",
    "FloorMod": "%",
    "EQ": "==",
    "NE": "!=",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "And": "and",
    "Or": "or",
    "LShift": "<<",
    "RShift": ">>",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
}


def text_of(node: Any) -> str:
    """Returns the text of an object."""
    for cls in type(node).__mro__:
        write = WRITERS.get(cls.__name__)
        if write is not None:
            return write(node)
    if isinstance(node, Node):
        fields = ", ".join(f"{name}={_value(getattr(node, name))}" for name in fields_of(type(node)))
        return f"{type(node).__name__}({fields})"
    return repr(node)


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return f'"{value}"'
    return text_of(value) if isinstance(value, Node) else repr(value)


def _dims(values: Any) -> str:
    texts = [str(value.value) if isinstance(value, p.IntImm) else text_of(value) for value in values]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _tensor(ty: Any) -> str:
    parts = []
    if ty.shape is not None:
        parts.append(_dims(ty.shape.values) if hasattr(ty.shape, "values") else text_of(ty.shape))
    if ty.dtype is not None:
        parts.append(f'dtype="{ty.dtype}"')
    if ty.shape is None and ty.ndim != -1:
        parts.append(f"ndim={ty.ndim}")
    return f"R.Tensor({', '.join(parts)})"


def _shape_type(ty: Any) -> str:
    if ty.values is not None:
        return f"R.Shape([{_dims(ty.values)[1:-1].rstrip(',')}])"
    return "R.Shape" if ty.ndim == -1 else f"R.Shape(ndim={ty.ndim})"


def _func_type(ty: t.FuncType) -> str:
    if ty.params is None:
        return "R.Callable"
    return f"R.Callable(({', '.join(map(text_of, ty.params))},), {text_of(ty.ret)}, {ty.purity})"


def _call(call: e.Call) -> str:
    callee = call.op.name if isinstance(call.op, e.Op) else text_of(call.op)
    if callee.startswith("relax."):
        callee = f"R.{callee[6:]}"
    elif callee.startswith("tirx."):
        callee = f"T.{callee[5:]}"
    parts = [text_of(arg) for arg in call.args]
    of: Any = call.op
    if type(of).__name__ == "ExternFunc":
        parts.insert(0, f'"{of.global_symbol}"')
        callee = "R.call_packed"
    parts += [f"{key}={_value(value)}" for key, value in (call.attrs or {}).items()]
    if call.ty_args:
        types = ", ".join(map(text_of, call.ty_args))
        word = "out_ty" if "call_tir" in callee or "call_dps" in callee else "ty_args"
        parts.append(f"{word}={types if len(call.ty_args) == 1 else f'({types},)'}")
    return f"{callee}({', '.join(parts)})"


def _number(value: p.IntImm) -> str:
    dtype = str(value.ty)
    if dtype == "bool":
        return f"T.bool({bool(value.value)})"
    return str(value.value) if dtype == "int32" else f"T.{dtype}({value.value})"


def _operation(value: p.BinaryOpExpr) -> str:
    sign = SIGNS.get(type(value).__name__)
    if sign is None:
        return f"T.{type(value).__name__.lower()}({text_of(value.a)}, {text_of(value.b)})"
    sides = [f"({text_of(x)})" if isinstance(x, p.BinaryOpExpr) else text_of(x) for x in (value.a, value.b)]
    return f"{sides[0]} {sign} {sides[1]}"


def _constant(value: e.GenericConst) -> str:
    data = value.value
    if isinstance(data, Tensor) and data.shape == ():
        return f'R.const({data.numpy().item()!r}, "{data.dtype}")'
    return f"R.const({data!r})"


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for text in lines for line in text.splitlines()]


def _block(block: Any) -> str:
    lines = [text_of(binding) for binding in block.bindings]
    if type(block).__name__ != "DataflowBlock":
        return "\n".join(lines)
    outputs = [b.var.name for b in block.bindings if type(b.var).__name__ != "DataflowVar"]
    return "\n".join(["with R.dataflow():", *_indented(lines), f"    R.output({', '.join(outputs)})"])


def _binding(binding: Any) -> str:
    var, value = binding.var, text_of(binding.value)
    annotation = "" if var.ty is t.MISSING else f": {text_of(var.ty)}"
    if type(binding).__name__ == "MatchCast":
        value = f"R.match_cast({value}, {text_of(binding.ty)})"
    return f"{var.name}{annotation} = {value}"


def _choice(value: Any) -> str:
    branches = [("if " + text_of(value.cond) + ":", value.true_branch), ("else:", value.false_branch)]
    lines = []
    for head, branch in branches:
        lines += [head, *_indented([text_of(branch)])]
    return "\n".join(lines)


WRITERS: dict[str, Callable[[Any], str]] = {
    "Var": lambda var: str(var.name),
    "GlobalVar": lambda var: str(var.name_hint),
    "Op": lambda op: f"Op({op.name})",
    "Call": _call,
    "Tuple": lambda value: f"({', '.join(map(text_of, value.fields))}{',' if len(value.fields) == 1 else ''})",
    "TupleGetItem": lambda value: f"{text_of(value.tuple_value)}[{value.index}]",
    "GenericConst": _constant,
    "StringImm": lambda value: f'"{value.value}"',
    "DataTypeImm": lambda value: f'R.dtype("{value.value}")',
    "ShapeExpr": lambda value: f"R.shape([{_dims(value.values)[1:-1].rstrip(',')}])",
    "ExternFunc": lambda value: f'R.ExternFunc("{value.global_symbol}")',
    "SeqExpr": lambda value: "\n".join([*map(text_of, value.blocks), text_of(value.body)]),
    "If": _choice,
    "BindingBlock": _block,
    "Binding": _binding,
    "IntImm": _number,
    "FloatImm": lambda value: f"T.{value.ty}({value.value!r})",
    "BinaryOpExpr": _operation,
    "Not": lambda value: f"not ({text_of(value.a)})",
    "BitwiseNot": lambda value: f"~({text_of(value.a)})",
    "Cast": lambda value: f'T.Cast("{value.ty}", {text_of(value.value)})',
    "PrimType": lambda ty: f"T.{ty.dtype}",
    "TensorType": _tensor,
    "ShapeType": _shape_type,
    "TupleType": lambda ty: f"R.Tuple({', '.join(map(text_of, ty.fields))})",
    "FuncType": _func_type,
    "AnyType": lambda ty: "R.Any",
    "PackedFuncType": lambda ty: "R.PackedFunc",
    "StringType": lambda ty: "R.String",
    "PointerType": lambda ty: f"T.handle({text_of(ty.element_type)})",
    "Type": lambda ty: "an unknown type" if ty is t.MISSING else f"{type(ty).__name__}()",
    "Range": lambda value: f"Range({text_of(value.min)}, {text_of(value.min + value.extent)})",
}
