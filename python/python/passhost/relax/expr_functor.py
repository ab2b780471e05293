"""Visitors and mutators for Relax: classes with a method for each kind of expression.

>>> from passhost import relax
>>> class Calls(relax.PyExprVisitor):
...     def __init__(self):
...         super().__init__()
...         self.names = []
...     def visit_call_(self, call):
...         super().visit_call_(call)
...         self.names.append(call.op.name)
>>> x = relax.Var("x", relax.TensorType([2], "float32"))
>>> calls = Calls()
>>> calls.visit_expr(relax.op.exp(relax.op.add(x, x)))
>>> calls.names
['relax.add', 'relax.exp']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from passhost import _provided
from passhost.error import too_deep
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
from passhost.ir.module import IRModule
from passhost.ir.prim import BinaryOpExpr, Cast, FloatImm, IntImm, Not, binary
from passhost.ir.type import MISSING, FuncType, PrimType, TupleType, Type
from passhost.relax.block_builder import BlockBuilder, _Frame
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
from passhost.relax.types import symbols_in, well_defined
from passhost.relax.visitor import METHODS, OF_TYPES, ExprFunctor, PyExprVisitor, scalar_operands

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]

_LEAVES = frozenset((Var, DataflowVar, GenericConst, Op, GlobalVar, ShapeExpr, StringImm, IntImm, FloatImm, ExternFunc))
_VARS = frozenset((Var, DataflowVar))
_OF_NAMES = ("visit_expr", "visit_var_", "visit_dataflow_var_", "visit_op_")
_OF_DEFINITIONS = ("visit_var_def", "visit_var_def_", "visit_dataflow_var_def_")


class PyExprMutator(ExprFunctor):
    """Rewrites expressions: the result of the method for a kind replaces the expression.

    `builder_` builds new code; its `emit` adds bindings before the one being visited.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        """Creates a mutator. New calls may refer to the functions of `mod`."""
        self.builder_ = BlockBuilder(mod)
        self._remap: dict[Var, Var] = {}
        self._symbols = False
        self._methods: dict[type, Callable[[Any], Any]] = {}
        # The most recently created sequence or function, whose bindings are normalized.
        self._normal: Expr | None = None
        # True if types can change only by replacing symbolic variables.
        self._types_stay = self._has_own(OF_TYPES)
        # True if variables and operators are only replaced according to `_remap`.
        self._names_stay = self._has_own(_OF_NAMES)
        # The kinds of operands that are only replaced according to `_remap`.
        self._plain: frozenset[type] = _VARS if self._names_stay else frozenset()
        # True if the definition of a variable changes only if a symbolic variable in its type does.
        self._definitions_stay = self._types_stay and self._has_own(_OF_DEFINITIONS)
        # True if each binding of a block is dispatched by kind. Most are VarBindings, so this is checked once.
        self._bindings_stay = self._has_own(("visit_binding",))
        # True if a variable that already has the type of its value is kept.
        self._results_stay = self._has_own(("with_type",))
        # The last two types found to be equal.
        self._equal: tuple[Type, Type] = (MISSING, MISSING)

    def _has_own(self, names: Sequence[str]) -> bool:
        """Returns true if none of these methods are overridden."""
        cls = type(self)
        return all(getattr(cls, name) is getattr(PyExprMutator, name) for name in names)

    def visit_expr(self, expr: Expr) -> Any:
        """Visits an expression with the method for its kind; returns the replacement, with a type."""
        method = self._methods.get(type(expr))
        if method is None:
            method = self._methods[type(expr)] = self._method(expr)
        try:
            made = method(expr)
            cls = type(made)
            if cls is Call:
                call: Call = made
                if call is expr and call._ty is not MISSING:
                    for arg in call._args:
                        if type(arg) not in _LEAVES:
                            break
                    else:
                        return call
                return self.builder_._call(call)
        except RecursionError as error:
            raise too_deep(error) from None
        if cls is SeqExpr and self.builder_._frames:
            # If the replacement is a sequence, such as a branch, its bindings go before the value.
            return self.builder_.normalize(made)
        if cls in _LEAVES or made is self._normal:
            return made
        return self.builder_.normalize(made)

    def visit_binding(self, binding: Binding) -> None:
        """Visits a binding and emits its replacement."""
        if isinstance(binding, VarBinding):
            self.visit_var_binding_(binding)
        elif isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        else:
            raise TypeError(f"Invalid type: {type(binding).__name__} is not a binding")

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Visits a block."""
        if isinstance(block, DataflowBlock):
            return self.visit_dataflow_block_(block)
        if isinstance(block, BindingBlock):
            return self.visit_binding_block_(block)
        raise TypeError(f"Invalid type: {type(block).__name__} is not a block")

    def visit_var_def(self, var: Var) -> Var:
        """Visits the definition of a variable; returns the variable to define instead."""
        return self.visit_dataflow_var_def_(var) if isinstance(var, DataflowVar) else self.visit_var_def_(var)

    def visit_expr_post_order(self, expr: Expr) -> Any:
        """Visits the operands of an expression; returns it with the new operands."""
        cls = type(expr)
        if cls is Call:
            return PyExprMutator.visit_call_(self, expr)  # type: ignore[arg-type]
        name = next((METHODS[base] for base in cls.__mro__ if base in METHODS), "visit_expr_fallback_")
        return getattr(PyExprMutator, name)(self, expr)

    def visit_with_new_scope(self, expr: Expr) -> SeqExpr:
        """Visits an expression as the body of a branch or function: emitted bindings stay inside."""
        builder = self.builder_
        outer = builder._frames
        builder._frames = []
        try:
            if isinstance(expr, SeqExpr):
                made = self.visit_expr(expr)
                return made if isinstance(made, SeqExpr) else _sequence_of([], made)
            builder._frames.append(_Frame(False))
            value = builder._operand(self.visit_expr(expr))
            block = builder._end_block()
            return _sequence_of([block] if block.bindings else [], value)
        finally:
            builder._frames = outer

    # Replacements by kind.

    def visit_constant_(self, op: GenericConst) -> Expr:
        """Visits a constant."""
        made: Expr = self.visit_generic_const_(op)
        return made

    def _constant(self, op: GenericConst) -> Expr:
        return op

    def visit_tuple_(self, op: Tuple) -> Expr:
        """Visits a tuple."""
        fields = [self.visit_expr(field) for field in op.fields]
        return op if _all_same(fields, op.fields) else Tuple(fields)

    def visit_var_(self, op: Var) -> Expr:
        """Visits a use of a variable."""
        return self._remap.get(op, op)

    def visit_dataflow_var_(self, op: DataflowVar) -> Expr:
        """Visits a use of a dataflow variable."""
        return self._remap.get(op, op)

    def visit_shape_expr_(self, op: ShapeExpr) -> Expr:
        """Visits a shape."""
        values = [self.visit_expr(value) for value in op.values]
        return op if _all_same(values, op.values) else ShapeExpr(values)

    def visit_extern_func_(self, op: ExternFunc) -> Expr:
        """Visits an external function."""
        return op

    def visit_global_var_(self, op: GlobalVar) -> Expr:
        """Visits a reference to a function of the module."""
        return op

    def visit_function_(self, op: Function) -> Expr:
        """Visits a function."""
        params = [self.visit_var_def(param) for param in op.params]
        for old, new in zip(op.params, params, strict=True):
            if old is not new and self._remap.get(old) is None:
                self._become(old, new)
        body = self.visit_with_new_scope(op.body)
        if body is op.body and _all_same(params, op.params):
            self._normal = op
            return op
        known = symbols_in(param.ty for param in params) | {param for param in params if param._prim}
        declared = op.ret_ty if body.ty is MISSING else well_defined(body.ty, known)
        ret = op.ret_ty if body.ty is MISSING or declared == op.ret_ty else declared
        self._normal = Function(params, body, ret, op.is_pure, op.attrs)
        return self._normal

    def visit_call_(self, op: Call) -> Expr:
        """Visits a call."""
        old, remap = op._op, self._remap
        callee, same = old, True
        args: list[Expr] = []
        if not self._names_stay or type(old) is not Op:
            callee = self.visit_expr(old)
            same = callee is old
        plain = self._plain
        for arg in op._args:
            made: Expr = remap.get(arg, arg) if type(arg) in plain else self.visit_expr(arg)  # type: ignore[call-overload]
            if made is not arg:
                same = False
            args.append(made)
        types: Sequence[Type] = op._ty_args
        if self._symbols or not self._types_stay:
            types = [self._visit_type(ty) for ty in types]
            same = same and _all_same(types, op._ty_args) and (op._ty is MISSING or self._visit_type(op._ty) is op._ty)
        if same:
            return op
        call = Call.__new__(Call)
        call._op = callee
        call._args = tuple(args)
        call._attrs = op._attrs
        call._ty_args = types if type(types) is tuple else tuple(types)
        # The operands of a scalar call keep their types, but a different callee may return a different type.
        call._ty = op._ty if callee is old and isinstance(op._ty, PrimType) else MISSING
        return call

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        """Visits blocks and their result."""
        blocks = []
        for block in op.blocks:
            made = self.visit_binding_block(block)
            if made.bindings:
                blocks.append(made)
        self.builder_._begin_binding_block()
        body = self.builder_._operand(self.visit_expr(op.body))
        rest = self.builder_._end_block()
        if rest.bindings:
            blocks.append(rest)
        self._normal = op if body is op.body and _all_same(blocks, op.blocks) else _sequence_of(blocks, body)
        return self._normal

    def visit_if_(self, op: If) -> Expr:
        """Visits a conditional expression."""
        cond = self.visit_expr(op.cond)
        then = self.visit_with_new_scope(op.true_branch)
        other = self.visit_with_new_scope(op.false_branch)
        if cond is op.cond and then is op.true_branch and other is op.false_branch:
            return op
        return If(cond, then, other)

    def visit_op_(self, op: Op) -> Expr:
        """Visits an operator."""
        return op

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Expr:
        """Visits an element of a tuple."""
        value = self.visit_expr(op.tuple_value)
        return op if value is op.tuple_value else TupleGetItem(value, op.index)

    def visit_string_imm_(self, op: StringImm) -> Expr:
        """Visits a string."""
        return op

    def visit_data_type_imm_(self, op: DataTypeImm) -> Expr:
        """Visits a data type."""
        return op

    def visit_expr_fallback_(self, op: Expr) -> Expr:
        """Visits anything else, such as PrimFuncs."""
        return op

    def _number(self, op: Expr) -> Expr:
        """Visits a number."""
        return op

    def _scalar(self, op: Expr) -> Expr:
        """Visits scalar arithmetic."""
        operands = scalar_operands(op)
        made = [self.visit_expr(operand) for operand in operands]
        if _all_same(made, operands):
            return op
        if isinstance(op, BinaryOpExpr):
            return binary(type(op).__name__, *made)
        return Cast(str(op.ty), made[0]) if isinstance(op, Cast) else Not(made[0])

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visits a binding."""
        old = binding._var
        value = self.visit_expr(binding._value)
        var = old if self._definitions_stay and not self._symbols else self.visit_var_def(old)
        if var is old and value is binding._value:
            self.builder_.emit_normalized(binding)
            return
        known, equal = var._ty, self._equal
        same = known is equal[0] and value._ty is equal[1] and self._results_stay
        typed = var if same else self.with_type(var, value._ty)
        if typed is not old:
            self._become(old, typed)
            if type(typed) not in _VARS:
                self.builder_.emit_normalized(VarBinding(typed, value))
                return
        made = VarBinding.__new__(VarBinding)
        made._var = typed
        made._value = value
        self.builder_.emit_normalized(made)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Visits a match_cast."""
        var = self.visit_var_def(binding.var)
        value = self.builder_._operand(self.visit_expr(binding.value))
        ty = self._visit_type(binding.ty)
        typed = self.with_type(var, ty)
        if typed is not binding.var:
            self._become(binding.var, typed)
        same = typed is binding.var and value is binding.value and ty is binding.ty
        self.builder_.emit_normalized(binding if same else MatchCast(typed, value, ty))

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """Visits a block."""
        self.builder_._begin_binding_block()
        return self._block(block)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Visits a dataflow block."""
        self.builder_._begin_dataflow_block()
        return self._block(block)

    def _block(self, block: BindingBlock) -> BindingBlock:
        visit: Callable[[Any], None] = self.visit_binding
        visit_bound: Callable[[Any], None] = self.visit_var_binding_ if self._bindings_stay else visit
        for binding in block.bindings:
            (visit_bound if type(binding) is VarBinding else visit)(binding)
        made = self.builder_._end_block()
        return block if _all_same(made.bindings, block.bindings) else made

    def visit_var_def_(self, var: Var) -> Var:
        """Visits the definition of a variable."""
        return var if var.ty is MISSING else self._typed(var)

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Var:
        """Visits the definition of a dataflow variable."""
        return self.visit_var_def_(var)

    def _typed(self, var: Var) -> Var:
        ty = self._visit_type(var.ty)
        if ty is var.ty:
            return var
        made = type(var)(var.name, ty)
        self._become(var, made)
        return made

    def _visit_type(self, ty: Type) -> Type:
        """Returns the type with its expressions replaced."""
        if self._types_stay and not self._symbols:
            return ty
        if isinstance(ty, TensorType):
            shape = None if ty.shape is None else self.visit_expr(ty.shape)
            return ty if shape is ty.shape else TensorType(shape, ty.dtype, ty.vdevice, ty.ndim)
        if isinstance(ty, ShapeType):
            values = [self.visit_expr(value) for value in ty.values or ()]
            return ty if _all_same(values, ty.values or ()) else ShapeType(values)
        if isinstance(ty, TupleType):
            fields = [self._visit_type(field) for field in ty.fields]
            return ty if _all_same(fields, ty.fields) else TupleType(fields)
        if isinstance(ty, FuncType):
            return ty
        return ty

    def _become(self, old: Var, new: Var) -> None:
        self._remap[old] = new
        self._symbols = self._symbols or old._prim

    # Helpers for mutators.

    def set_var_remap(self, old_var: Var, new_var: Var) -> None:
        """Replaces a variable from here on."""
        self._become(old_var, new_var)

    def get_var_remap(self, var: Var) -> Var:
        """Returns the replacement of a variable."""
        return self._remap.get(var, var)

    def lookup_binding(self, var: Var) -> Expr | None:
        """Returns the value to which a variable is bound, among the emitted bindings."""
        return self.builder_.lookup_binding(var)

    def with_type(self, var: Var, ty: Type) -> Var:
        """Returns a variable of this type: the same one if it already has the type."""
        old, equal = var._ty, self._equal
        if ty is MISSING or old is ty or (old is equal[0] and ty is equal[1]):
            return var
        if old == ty:
            self._equal = (old, ty)
            return var
        if old is MISSING:
            var._ty = ty
            return var
        return type(var)(var.name, ty)


def _all_same(a: Any, b: Any) -> bool:
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):  # noqa: SIM110 - a generator is slower
        if x is not y:
            return False
    return True


def _sequence_of(blocks: list[BindingBlock], body: Expr) -> SeqExpr:
    made = SeqExpr(blocks, body)
    made._ty = body.ty
    return made


def _derived(cls: Any, base: type) -> Any:
    if not isinstance(cls, type) or not issubclass(cls, base):
        raise TypeError(f"{cls!r} is not derived from {base.__name__}")
    for parent in cls.__mro__[1:]:
        if "_cls" in parent.__dict__:
            raise TypeError(
                f"Inheritance from a decorated object `{cls.__name__}` is not allowed. "
                f"Please inherit from `{cls.__name__}._cls`."
            )
    made = type(cls.__name__, (cls,), {"_cls": cls, "__doc__": cls.__doc__, "__module__": cls.__module__})
    made.__qualname__ = cls.__qualname__
    return made


def visitor(visitor_cls: Any) -> Any:
    """Decorates a class derived from `PyExprVisitor`, for compatibility with TVM. It is not required."""
    return _derived(visitor_cls, PyExprVisitor)


def mutator(mutator_cls: Any) -> Any:
    """Decorates a class derived from `PyExprMutator`, for compatibility with TVM. It is not required."""
    return _derived(mutator_cls, PyExprMutator)


def _renamed(mod: IRModule, names: Mapping[str, str]) -> IRModule:
    """Returns a module with renamed functions; calls are updated."""

    class Renamer(PyExprMutator):
        def visit_global_var_(self, op: GlobalVar) -> Expr:
            return GlobalVar(names[op.name_hint], op.ty) if op.name_hint in names else op

    made = IRModule(attrs=mod.attrs, global_infos=mod.global_infos)
    renamer = Renamer(mod)
    for var, function in mod.functions_items():
        new = renamer.visit_expr(function) if isinstance(function, Function) else function
        made[names.get(var.name_hint, var.name_hint)] = new
    return made


_provided.renamed = _renamed
