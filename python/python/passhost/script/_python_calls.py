"""Python expressions inside a parsed function, such as `R.emit_te(topi.exp, x)`.

The TVMScript parser does not execute Python. It parses a call of a generated name with the variables that the
expression uses. After parsing, the bindings are visited in order: Python evaluates each expression with the
variables, which now have types, and the types of later bindings are inferred.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from passhost.ir.expr import Call, Expr, Tuple, Var, checked_expr
from passhost.ir.module import IRModule
from passhost.ir.type import Type
from passhost.relax.block_builder import BlockBuilder
from passhost.relax.expr import ExternFunc, Function
from passhost.relax.expr_functor import PyExprMutator

_PREFIX = "passhost.script.python:"
_BUILDER: ContextVar[BlockBuilder | None] = ContextVar("builder", default=None)


class _PythonCall:
    """An expression, with the names of the variables that it uses, and the values of all other names."""

    def __init__(self, node: ast.expr, used: Sequence[str], names: Mapping[str, Any], place: str) -> None:
        self.code = compile(ast.Expression(node), place, "eval")
        self.used, self.names = used, names
        self.text, self.place = ast.unparse(node), f"{place}:{node.lineno}"

    def __call__(self, values: Sequence[Expr]) -> Expr:
        try:
            made = eval(self.code, {**self.names, **dict(zip(self.used, values, strict=True))})
            return _expression(made, self.text)
        except Exception as error:
            error.add_note(f"{self.place}: while the function was parsed, in `{self.text}`")
            raise


def _expression(value: Any, text: str) -> Expr:
    if isinstance(value, tuple | list):
        return Tuple([_expression(item, text) for item in value])
    return checked_expr(value, f"the value of `{text}`")


class PythonCalls:
    """The expressions that Python evaluates, and the declared types around them."""

    def __init__(self, place: str) -> None:
        """Starts without expressions, for the source at a position."""
        self.place = place
        self._calls: dict[str, _PythonCall] = {}
        self._declared: dict[str, set[str]] = {}

    def __len__(self) -> int:
        """Returns the number of expressions."""
        return len(self._calls)

    def add(self, node: ast.expr, used: Sequence[str], names: Mapping[str, Any]) -> str:
        """Adds an expression; returns the name of the external function that replaces it for the parser."""
        name = f"{_PREFIX}{len(self._calls)}"
        self._calls[name] = _PythonCall(node, used, names, self.place)
        return name

    def declare(self, function: ast.FunctionDef) -> None:
        """Records which variables of a function have declared types."""
        targets = (part.target for part in ast.walk(function) if isinstance(part, ast.AnnAssign))
        self._declared[function.name] = {target.id for target in targets if isinstance(target, ast.Name)}

    def evaluated(self, mod: IRModule) -> IRModule:
        """Returns the parsed module with each expression replaced by its value."""
        mutator = _Evaluator(mod, self._calls)
        for var, function in mod.functions_items():
            if isinstance(function, Function):
                mutator.replace(var.name_hint, function, self._declared.get(var.name_hint, ()))
        return mutator.builder_.finalize()


class _Evaluator(PyExprMutator):
    """Evaluates Python expressions."""

    def __init__(self, mod: IRModule, calls: Mapping[str, _PythonCall]) -> None:
        super().__init__(mod)
        self.calls = calls
        self.declared: Iterable[str] = ()

    def replace(self, name: str, function: Function, declared: Iterable[str]) -> None:
        """Replaces a function of the module."""
        self.declared = declared
        try:
            made = self.visit_expr(function)
        except Exception as error:
            error.add_note(f"in function `{name}`, after its Python calls were evaluated")
            raise
        if made is not function:
            self.builder_.update_func(name, made)  # type: ignore[arg-type]

    def visit_call_(self, op: Call) -> Expr:
        """Visits a call, and evaluates it if its name represents an expression."""
        first = op.args[0] if op.args else None
        call = self.calls.get(first.global_symbol) if isinstance(first, ExternFunc) else None
        if call is None:
            return super().visit_call_(op)
        with _building(self.builder_):
            return call([self.visit_expr(arg) for arg in op.args[1:]])

    def with_type(self, var: Var, ty: Type) -> Var:
        """Returns a variable with the type that the source declares, or with the type of the value."""
        return var if var.name in self.declared else super().with_type(var, ty)


@contextmanager
def _building(builder: BlockBuilder) -> Iterator[None]:
    token = _BUILDER.set(builder)
    try:
        yield
    finally:
        _BUILDER.reset(token)


def emit_te(func: Any, *args: Any, **kwargs: Any) -> Call:
    """Returns a call of the PrimFunc that computes a tensor expression. The PrimFunc is added to the parsed module."""
    # Imported here, because few programs use tensor expressions.
    from passhost.te.emit import call_te

    builder = _BUILDER.get()
    if builder is None:
        raise RuntimeError("R.emit_te can only be used in an @R.function; elsewhere, use BlockBuilder.emit_te")
    return call_te(builder, func, args, kwargs, shared=False)
