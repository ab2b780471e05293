"""Modules, functions, types and expressions shared by Relax and TIR."""

from __future__ import annotations

from passhost._tensor import Tensor
from passhost.ir._node import Node
from passhost.ir.attrs import AttrObject, Attrs, DictAttrs, make_node
from passhost.ir.diff import FunctionDiff, ModuleDiff, diff
from passhost.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    GenericConst,
    GlobalVar,
    Op,
    OpaqueExpr,
    Range,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    is_prim_expr,
    is_prim_var,
)
from passhost.ir.function import BaseFunc
from passhost.ir.json import load_json, save_json
from passhost.ir.module import IRModule
from passhost.ir.structural import assert_structural_equal, structural_equal, structural_hash
from passhost.ir.type import FuncType, PointerType, PrimType, StringType, TupleType, Type

__all__ = [
    "AttrObject",
    "Attrs",
    "BaseFunc",
    "Call",
    "Constant",
    "DataTypeImm",
    "DictAttrs",
    "Expr",
    "FuncType",
    "FunctionDiff",
    "GenericConst",
    "GlobalVar",
    "IRModule",
    "ModuleDiff",
    "Node",
    "Op",
    "OpaqueExpr",
    "PointerType",
    "PrimType",
    "Range",
    "StringImm",
    "StringType",
    "Tensor",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Type",
    "Var",
    "assert_structural_equal",
    "diff",
    "is_prim_expr",
    "is_prim_var",
    "load_json",
    "make_node",
    "save_json",
    "structural_equal",
    "structural_hash",
]
