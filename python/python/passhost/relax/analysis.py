"""Analyses of functions and expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost import _passhost, _plugins, _provided
from passhost.error import IllFormedError, PasshostError
from passhost.ir.expr import Call, Expr, GlobalVar, Var
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule
from passhost.ir.type import MISSING, Type
from passhost.relax.expr import Binding, DataflowBlock, ExternFunc, Function, If, MatchCast, VarBinding
from passhost.relax.types import defined_in, join_types, symbols_in, well_defined
from passhost.relax.visitor import PyExprVisitor

__all__ = [
    "all_global_vars",
    "all_vars",
    "bound_vars",
    "check_well_formed",
    "contains_impure_call",
    "definable_tir_vars_in_type",
    "defined_symbolic_vars",
    "erase_to_well_defined",
    "free_symbolic_vars",
    "free_vars",
    "get_static_type",
    "get_var2val",
    "name_to_binding",
    "post_order_visit",
    "remove_all_unused",
    "tir_vars_in_type",
    "type_lca",
    "udchain",
    "used_vars",
    "well_formed",
]


def well_formed(obj: IRModule | Function, check_ty: bool = True) -> None:
    """Raises `IllFormedError` if a module or function is ill-formed.

    For a single function, the types of its callees are taken from their global variables. Without `check_ty`, the type
    of a call may differ from the type that its operator infers.
    """
    _plugins.ensure_loaded()
    mod = obj if isinstance(obj, IRModule) else with_callees(obj)
    _unique(mod)
    for _, function in mod.functions_items():
        # Functions from the host already have types.
        if isinstance(function, Function) and function._parts is not None:
            _Typed().visit_expr(function)
    _passhost.verify(mod._handle(), check_ty)


def with_callees(function: Function) -> IRModule:
    """Returns a module with one function, whose callees are external."""
    mod = IRModule.from_expr(function)
    for var in all_global_vars(function):
        if var not in mod:
            mod[var] = ExternFunc(var.name_hint, None if var.ty is MISSING else var.ty)
    return mod


class _Typed(PyExprVisitor):
    """Rejects an `If` without a type, because the common type of its branches is unknown."""

    def visit_if_(self, op: If) -> None:
        if op.ty is MISSING:
            raise IllFormedError("the type of an If is unknown: normalize the enclosing function")
        super().visit_if_(op)


def _unique(mod: IRModule) -> None:
    """Checks that each variable belongs to one function."""
    owner: dict[Var, str] = {}
    for name, function in mod.functions_items():
        if not isinstance(function, Function) or function._handle is not None:
            continue
        for var in {*bound_vars(function), *defined_symbolic_vars(function)}:
            if owner.setdefault(var, name.name_hint) != name.name_hint:
                raise IllFormedError(f"variable {var.name} is defined in both {owner[var]} and {name.name_hint}")


def check_well_formed(obj: IRModule | Function, check_ty: bool = True) -> bool:
    """Returns true if a module or function is well-formed. Errors are printed."""
    try:
        well_formed(obj, check_ty)
    except (PasshostError, TypeError, ValueError) as error:
        import warnings

        warnings.warn(f"This IR is not well formed: {error}", stacklevel=2)
        return False
    return True


class _Variables(PyExprVisitor):
    """Collects variables in the order in which they are found."""

    _sees_types = False

    def __init__(self) -> None:
        self.used: dict[Var, None] = {}
        self.bound: dict[Var, None] = {}
        self.free: dict[Var, None] = {}
        self.globals: dict[GlobalVar, None] = {}

    def visit_var_(self, op: Var) -> None:
        if op._prim and op not in self.bound:
            return
        self.used[op] = None
        if op not in self.bound:
            self.free[op] = None

    visit_dataflow_var_ = visit_var_

    def visit_var_def_(self, var: Var) -> None:
        self.bound[var] = None

    def visit_global_var_(self, op: GlobalVar) -> None:
        self.globals[op] = None


def _variables(expr: Any) -> _Variables:
    found = _Variables()
    if isinstance(expr, Expr):
        found.visit_expr(expr)
    else:
        found.visit_binding_block(expr)
    return found


def free_vars(expr: Expr) -> list[Var]:
    """Returns the variables that are not defined in an expression."""
    return list(_variables(expr).free)


def bound_vars(expr: Expr) -> list[Var]:
    """Returns the variables that an expression defines."""
    return list(_variables(expr).bound)


def all_vars(expr: Expr) -> list[Var]:
    """Returns all variables of an expression."""
    found = _variables(expr)
    return list({**found.bound, **found.used})


def used_vars(expr: Expr) -> list[Var]:
    """Returns the variables that an expression uses."""
    return list(_variables(expr).used)


def all_global_vars(expr: Expr) -> list[GlobalVar]:
    """Returns the functions of the module that an expression refers to."""
    return list(_variables(expr).globals)


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], Any]) -> None:
    """Calls a function with each subexpression of an expression, operands first."""

    class Visitor(PyExprVisitor):
        def visit_expr(self, expr: Expr) -> None:
            super().visit_expr(expr)
            fvisit(expr)

    Visitor().visit_expr(expr)


class _Bindings(PyExprVisitor):
    def __init__(self) -> None:
        self.all: list[Binding] = []

    def visit_var_binding_(self, binding: VarBinding) -> None:
        self.all.append(binding)
        super().visit_var_binding_(binding)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        self.all.append(binding)
        super().visit_match_cast_(binding)


def _bindings(func: Function) -> list[Binding]:
    found = _Bindings()
    found.visit_expr(func)
    return found.all


def get_var2val(func: Function) -> dict[Var, Expr]:
    """Returns the value to which each variable is bound."""
    return {binding.var: binding.value for binding in _bindings(func)}  # type: ignore[attr-defined]


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """Returns the bindings by variable name."""
    found: dict[str, list[Binding]] = {}
    for binding in _bindings(func):
        found.setdefault(binding.var.name, []).append(binding)
    return found


def udchain(dfb: DataflowBlock) -> dict[Var, list[Var]]:
    """Returns, for each variable of a dataflow block, the variables that use it."""
    users: dict[Var, list[Var]] = {}
    for binding in dfb.bindings:
        users.setdefault(binding.var, [])
        for var in used_vars(binding.value):  # type: ignore[attr-defined]
            users.setdefault(var, []).append(binding.var)
    return users


def tir_vars_in_type(ty: Type) -> list[Var]:
    """Returns the symbolic variables in a type."""
    defined = definable_tir_vars_in_type(ty)
    return [*defined, *(symbols_in([ty]) - set(defined))]


def definable_tir_vars_in_type(ty: Type) -> list[Var]:
    """Returns the symbolic variables that a parameter with a given type defines."""
    return defined_in([ty])


def defined_symbolic_vars(func: Function) -> list[Var]:
    """Returns the symbolic variables that a function defines in its parameters and match_casts."""
    types = [param.ty for param in func.params]
    types += [binding.ty for binding in _bindings(func) if isinstance(binding, MatchCast)]
    scalars = [param for param in func.params if param._prim]
    return list(dict.fromkeys([*scalars, *defined_in(types)]))


def free_symbolic_vars(func: Function) -> list[Var]:
    """Returns the symbolic variables that a function uses but does not define."""
    types = [param.ty for param in func.params] + [binding.var.ty for binding in _bindings(func)] + [func.ret_ty]
    return list(symbols_in(types) - set(defined_symbolic_vars(func)))


def contains_impure_call(expr: Expr, own_name: Var | GlobalVar | None = None) -> bool:
    """Returns true if an expression contains a call with an effect."""
    infer = _passhost.Inferrer().infer
    found = False

    class Visitor(PyExprVisitor):
        def visit_call_(self, op: Call) -> None:
            nonlocal found
            own = own_name is not None and op.op is own_name
            found = found or (not own and not op._prim and not infer(op)[1])
            super().visit_call_(op)

    Visitor().visit_expr(expr)
    return found


def type_lca(lhs: Type, rhs: Type) -> Type:
    """Returns the most specific type that includes two types."""
    return join_types(lhs, rhs)


def get_static_type(ty: Type) -> Type:
    """Returns a type without the parts that depend on values."""
    return well_defined(ty, set())


def erase_to_well_defined(
    ty: Type, shape_var_map: dict[Var, Expr] | None = None, var_map: dict[Var, Expr] | None = None
) -> Type:
    """Returns a type without the parts that depend on unknown symbolic variables."""
    return well_defined(ty, set(shape_var_map or {}))


def remove_all_unused(func: Function) -> Function:
    """Removes unused bindings without effects from a function."""
    name = str(func.attrs.get("global_symbol", "main"))
    handle = func._seal(name)
    made = _passhost.remove_all_unused(handle)
    return func if made == handle else Function._of(made, name)


def _alone(function: BaseFunc, name: str) -> IRModule:
    return with_callees(function) if isinstance(function, Function) else IRModule({name: function})


_provided.alone = _alone
