"""Relax: expressions, types and operators, and tools to build and change functions."""

from __future__ import annotations

from passhost.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from passhost.ir.type import FuncType, TupleType, Type
from passhost.relax import analysis, expr_functor, op, transform
from passhost.relax.block_builder import BlockBuilder
from passhost.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    Function,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    VarBinding,
    const,
    extern,
    get_shape_of,
    prim_value,
)
from passhost.relax.expr_functor import ExprFunctor, PyExprMutator, PyExprVisitor
from passhost.relax.global_info import DummyGlobalInfo, VDevice
from passhost.relax.op.special import call_dps_packed, call_pure_packed, call_tir, call_tir_inplace
from passhost.relax.pipeline import get_default_pipeline, get_pipeline, register_pipeline
from passhost.relax.type import AnyType, ObjectType, PackedFuncType, ShapeType, TensorType

__all__ = [
    "AnyType",
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "Call",
    "DataflowBlock",
    "DataflowVar",
    "DummyGlobalInfo",
    "Expr",
    "ExprFunctor",
    "ExternFunc",
    "FuncType",
    "Function",
    "GlobalVar",
    "If",
    "MatchCast",
    "ObjectType",
    "PackedFuncType",
    "PyExprMutator",
    "PyExprVisitor",
    "SeqExpr",
    "ShapeExpr",
    "ShapeType",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Type",
    "VDevice",
    "Var",
    "VarBinding",
    "analysis",
    "call_dps_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "const",
    "expr_functor",
    "extern",
    "get_default_pipeline",
    "get_pipeline",
    "get_shape_of",
    "op",
    "prim_value",
    "register_pipeline",
    "transform",
]
