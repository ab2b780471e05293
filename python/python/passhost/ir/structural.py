"""Structural equality and hash, which ignore variable names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from passhost._tensor import Tensor
from passhost.error import IllFormedError, too_deep
from passhost.ir._node import Comparison, Node, fields_of
from passhost.ir.expr import GlobalVar, Op, StringImm, Var
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule
from passhost.ir.type import PrimType


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Returns true if two modules, functions, expressions or types are equal up to variable names.

    With `map_free_vars`, free variables of both sides may differ, too.
    """
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
        return Comparison(map_free_vars).same(lhs, rhs)
    except RecursionError as error:
        raise too_deep(error) from None


def _handles(lhs: Any, rhs: Any) -> tuple[Any, Any] | None:
    if not hasattr(lhs, "_seal"):
        return None
    try:
        return lhs._seal(), rhs._seal()
    except (IllFormedError, TypeError):
        return None


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """Returns a hash that is equal for structurally equal objects."""
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
    """Raises `ValueError`, with a diff of the texts, unless both are structurally equal."""
    if structural_equal(lhs, rhs, map_free_vars):
        return
    raise ValueError(f"StructuralEqual check failed:\n{difference(lhs, rhs)}")


def difference(lhs: Any, rhs: Any) -> str:
    """Returns a diff of the texts of two objects, or a description of the difference if the texts are equal."""
    import difflib

    left, right = _text(lhs).splitlines(), _text(rhs).splitlines()
    lines = list(difflib.unified_diff(left, right, "left", "right", lineterm="", n=2))
    if lines:
        return "\n".join(lines)
    if type(lhs) is not type(rhs):
        return f"one is {type(lhs).__name__}, the other is {type(rhs).__name__}"
    return "their texts are equal; they differ in types, attributes, large constants or the variables that they use"


def _text(side: Any) -> str:
    try:
        return str(side.script()) if hasattr(side, "script") else repr(side)
    except ValueError as error:
        return f"no text: {error}"
