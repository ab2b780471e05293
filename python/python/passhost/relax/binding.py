"""Binds parameters and symbolic variables to values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from passhost import _provided
from passhost._tensor import Tensor
from passhost.ir.expr import Expr, Var, as_dim
from passhost.ir.prim import folded, scalar
from passhost.ir.structural import structural_equal
from passhost.ir.type import MISSING
from passhost.relax.expr import Function, ShapeExpr, const
from passhost.relax.expr_functor import PyExprMutator
from passhost.relax.type import TensorType
from passhost.relax.types import defined_in, symbols_in, well_defined


class _Substitution(PyExprMutator):
    """Replaces Relax and symbolic variables with values."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        super().__init__()
        self.values = values

    def visit_var_(self, op: Var) -> Expr:
        found = self.values.get(op)
        return super().visit_var_(op) if found is None else found

    visit_dataflow_var_ = visit_var_


def _found(name: str, variables: list[Var], what: str) -> Var:
    matches = [var for var in variables if var.name == name]
    if len(matches) != 1:
        wrong = "no" if not matches else "more than one"
        known = ", ".join(var.name for var in variables) or "none"
        raise ValueError(f"{wrong} {what} is named {name}; there are: {known}")
    return matches[0]


def _bound(function: Function, values: dict[Var, Expr]) -> Function:
    params = [param for param in function.params if param not in values]
    mutator = _Substitution(values)
    params = [mutator.visit_var_def(param) for param in params]
    body = mutator.visit_with_new_scope(function.body)
    known = symbols_in(param.ty for param in params) | {param for param in params if param._prim}
    ret = mutator._visit_type(function.ret_ty) if body.ty is MISSING else well_defined(body.ty, known)
    return Function(params, body, ret, function.is_pure, function.attrs)


def bind_params(function: Function, binding_map: Mapping[str | Var, Any]) -> Function:
    """Returns a function with values in place of parameters."""
    values: dict[Var, Expr] = {}
    for key, value in binding_map.items():
        var = _found(key, list(function.params), "parameter") if isinstance(key, str) else key
        if var not in function.params:
            raise ValueError(f"{var.name} is not a parameter")
        values[var] = _scalar_value(var, value) if var._prim else _constant(value)
    for var in list(values):
        _bind_shape(var, values[var], values)
    return _bound(function, values) if values else function


def _constant(value: Any) -> Expr:
    """Converts a value to an expression; an array keeps its data type."""
    return value if isinstance(value, Expr) else const(Tensor(value) if hasattr(value, "__array__") else value)


def _bind_shape(var: Var, value: Expr, values: dict[Var, Expr]) -> None:
    """Derives symbolic variables in a parameter's shape from the shape of the value."""
    wanted, found = var.ty, value.ty
    if not isinstance(wanted, TensorType) or not isinstance(found, TensorType):
        return
    if not isinstance(wanted.shape, ShapeExpr) or not isinstance(found.shape, ShapeExpr):
        return
    for dim, known in zip(wanted.shape.values, found.shape.values, strict=False):
        if isinstance(dim, Var) and dim is not known:
            before = values.setdefault(dim, known)
            if not structural_equal(folded(before), folded(known)):
                raise ValueError(
                    f"Explicit binding for symbolic variable {dim.name} conflicts with the value inferred from a "
                    f"parameter shape: it is {before!r}, but {known!r} in the shape of {var.name}"
                )


def _scalar_value(var: Var, value: Any) -> Expr:
    made = scalar(value, str(var.ty)) if isinstance(value, int | float) else value
    if not isinstance(made, Expr) or not made._prim:
        raise ValueError(f"Explicit binding for symbolic variable {var.name} must be a primitive expression")
    return made


def bind_symbolic_vars(function: Function, binding_map: Mapping[str | Var, Any]) -> Function:
    """Returns a function with values in place of symbolic variables."""
    if not isinstance(binding_map, Mapping):
        raise TypeError(f"the values of symbolic variables must be a dict, not {type(binding_map).__name__}")
    known = list(dict.fromkeys(defined_in(param.ty for param in function.params)))
    values: dict[Var, Expr] = {}
    for key, value in binding_map.items():
        var = _found(key, known, "symbolic variable") if isinstance(key, str) else key
        if var not in known:
            raise ValueError(f"{var.name} is not a symbolic variable of the function")
        if var in values:
            raise ValueError(f"{var.name} is given twice")
        values[var] = as_dim(value)
    return _bound(function, values) if values else function


_provided.bind_params = bind_params
_provided.bind_symbolic_vars = bind_symbolic_vars
