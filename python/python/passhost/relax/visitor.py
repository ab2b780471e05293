"""Visitors for Relax: classes with a method for each kind of expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost.error import too_deep
from passhost.ir._node import fields_of
from passhost.ir.expr import (
    Call,
    DataTypeImm,
    Expr,
    GenericConst,
    GlobalVar,
    Op,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from passhost.ir.prim import BinaryOpExpr, Cast, FloatImm, IntImm, Not
from passhost.ir.type import TupleType, Type
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
)
from passhost.relax.type import ShapeType, TensorType

METHODS: dict[type, str] = {
    GenericConst: "visit_constant_",
    Tuple: "visit_tuple_",
    DataflowVar: "visit_dataflow_var_",
    Var: "visit_var_",
    ShapeExpr: "visit_shape_expr_",
    ExternFunc: "visit_extern_func_",
    GlobalVar: "visit_global_var_",
    Function: "visit_function_",
    Call: "visit_call_",
    SeqExpr: "visit_seq_expr_",
    If: "visit_if_",
    Op: "visit_op_",
    TupleGetItem: "visit_tuple_getitem_",
    StringImm: "visit_string_imm_",
    DataTypeImm: "visit_data_type_imm_",
    IntImm: "_number",
    FloatImm: "_number",
    BinaryOpExpr: "_scalar",
    Cast: "_scalar",
    Not: "_scalar",
}

OF_TYPES = ("visit_expr", "visit_var_", "visit_shape_expr_", "_scalar", "_number")


class ExprFunctor:
    """Dispatches to the method for the kind of an expression."""

    def _method(self, expr: Expr) -> Callable[[Any], Any]:
        cls = type(expr)
        name = METHODS.get(cls)
        if name is None:
            name = next((METHODS[base] for base in cls.__mro__ if base in METHODS), "visit_expr_fallback_")
            if not isinstance(expr, Expr):
                raise TypeError(f"Invalid type: {cls.__name__} is not an expression")
        return getattr(self, name)  # type: ignore[no-any-return]

    def visit_generic_const_(self, op: GenericConst) -> Any:
        """Visits a constant; the newer name of `visit_constant_`."""
        return self._constant(op)

    def _constant(self, op: GenericConst) -> Any:
        raise NotImplementedError

    def visit_span(self, span: Any) -> Any:
        """Does nothing, because nodes do not have spans."""
        return span


class PyExprVisitor(ExprFunctor):
    """Visits expressions. Override `visit_call_`, `visit_var_binding_` and so on, and call `super()` to continue.

    The shapes and scalars in the type of a value are visited where the value is used. The types of parameters are
    not visited.
    """

    # True if the class visits anything that types can contain. Types are visited only for such classes.
    _sees_types = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Determines what the class visits."""
        super().__init_subclass__(**kwargs)
        if "_sees_types" not in cls.__dict__:
            cls._sees_types = any(getattr(cls, name) is not getattr(PyExprVisitor, name) for name in OF_TYPES)

    def visit_expr(self, expr: Expr) -> None:
        """Visits an expression with the method for its kind."""
        try:
            self._method(expr)(expr)
        except RecursionError as error:
            raise too_deep(error) from None

    def visit_binding(self, binding: Binding) -> None:
        """Visits a binding."""
        if isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        elif isinstance(binding, VarBinding):
            self.visit_var_binding_(binding)
        else:
            raise TypeError(f"Invalid type: {type(binding).__name__} is not a binding")

    def visit_binding_block(self, block: BindingBlock) -> None:
        """Visits a block."""
        if isinstance(block, DataflowBlock):
            self.visit_dataflow_block_(block)
        elif isinstance(block, BindingBlock):
            self.visit_binding_block_(block)
        else:
            raise TypeError(f"Invalid type: {type(block).__name__} is not a block")

    def visit_var_def(self, var: Var) -> None:
        """Visits the definition of a variable."""
        if isinstance(var, DataflowVar):
            self.visit_dataflow_var_def_(var)
        else:
            self.visit_var_def_(var)

    def _visit_all(self, exprs: Any) -> None:
        for expr in exprs:
            self.visit_expr(expr)

    def _visit_type(self, ty: Type) -> None:
        """Visits the shapes and scalars in a type, if the class visits any."""
        if not self._sees_types:
            return
        if isinstance(ty, TensorType):
            if ty.shape is not None:
                self.visit_expr(ty.shape)
        elif isinstance(ty, ShapeType):
            self._visit_all(ty.values or ())
        elif isinstance(ty, TupleType):
            for field in ty.fields:
                self._visit_type(field)

    def visit_constant_(self, op: GenericConst) -> None:
        """Visits a constant."""
        self.visit_generic_const_(op)
        self._visit_type(op._ty)

    def _constant(self, op: GenericConst) -> None:
        """Does nothing, because a constant does not have parts."""

    def visit_tuple_(self, op: Tuple) -> None:
        """Visits a tuple."""
        self._visit_all(op.fields)
        self._visit_type(op._ty)

    def visit_var_(self, op: Var) -> None:
        """Visits a use of a variable."""
        self._visit_type(op._ty)

    def visit_dataflow_var_(self, op: DataflowVar) -> None:
        """Visits a use of a dataflow variable."""
        self._visit_type(op._ty)

    def visit_shape_expr_(self, op: ShapeExpr) -> None:
        """Visits a shape."""
        self._visit_all(op.values)

    def visit_extern_func_(self, op: ExternFunc) -> None:
        """Visits an external function."""

    def visit_global_var_(self, op: GlobalVar) -> None:
        """Visits a reference to a function of the module."""

    def visit_function_(self, op: Function) -> None:
        """Visits a function."""
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)

    def visit_call_(self, op: Call) -> None:
        """Visits a call."""
        self.visit_expr(op.op)
        for ty in op.ty_args:
            self._visit_type(ty)
        for arg in op.args:
            self.visit_expr(arg)
        self._visit_type(op._ty)

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        """Visits blocks and their result."""
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)
        self._visit_type(op._ty)

    def visit_if_(self, op: If) -> None:
        """Visits a conditional expression."""
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)
        self._visit_type(op._ty)

    def visit_op_(self, op: Op) -> None:
        """Visits an operator."""

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        """Visits an element of a tuple."""
        self.visit_expr(op.tuple_value)
        self._visit_type(op._ty)

    def visit_string_imm_(self, op: StringImm) -> None:
        """Visits a string."""

    def visit_data_type_imm_(self, op: DataTypeImm) -> None:
        """Visits a data type."""

    def visit_expr_fallback_(self, op: Expr) -> None:
        """Visits anything else, such as PrimFuncs."""

    def _number(self, op: Expr) -> None:
        """Visits a number."""

    def _scalar(self, op: Expr) -> None:
        """Visits scalar arithmetic."""
        self._visit_all(scalar_operands(op))

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visits a binding."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Visits a match_cast."""
        self.visit_expr(binding.value)
        self._visit_type(binding.ty)
        self.visit_var_def(binding.var)

    def visit_binding_block_(self, block: BindingBlock) -> None:
        """Visits a block."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        """Visits a dataflow block."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_var_def_(self, var: Var) -> None:
        """Visits the definition of a variable."""

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        """Visits the definition of a dataflow variable."""
        self.visit_var_def_(var)


def scalar_operands(expr: Expr) -> list[Expr]:
    """Returns the operands of scalar arithmetic."""
    values = [getattr(expr, name) for name in fields_of(type(expr))]
    return [value for value in values if isinstance(value, Expr)]
