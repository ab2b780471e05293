"""Relax passes: plugin passes under TVM's names, and passes made from Python functions.

>>> from passhost import relax
>>> @relax.transform.function_pass(opt_level=0)
... def twice(func, mod, ctx):
...     return func.with_attr("seen", 1)
>>> twice.info.name
'twice'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from passhost._context import PassContext
from passhost._pass_info import PassInfo
from passhost._passes import MadePass, ModulePass, Pass, PluginPass, made_by, with_functions
from passhost.error import PassFailedError
from passhost.ir.expr import Call, Expr, Op, Var
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule
from passhost.ir.type import MISSING
from passhost.passes import TvmNames
from passhost.relax.binding import bind_params, bind_symbolic_vars
from passhost.relax.block_builder import BlockBuilder
from passhost.relax.expr import BindingBlock, DataflowBlock, DataflowVar, Function, MatchCast
from passhost.relax.expr_functor import PyExprMutator
from passhost.relax.types import defined_in

__all__ = [
    "BindParams",
    "BindSymbolicVars",
    "DataflowBlockPass",
    "FunctionPass",
    "LegalizeOps",
    "dataflowblock_pass",
    "function_pass",
]


class FunctionPass(MadePass):
    """A pass over Relax functions implemented by a Python function; see `function_pass`."""

    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        def change(function: BaseFunc) -> BaseFunc:
            if not isinstance(function, Function) or function.attrs.get("SkipOptimization"):
                return function
            return self._checked(self._function(function, mod, ctx), Function, "a relax.Function")

        return with_functions(mod, change)


class DataflowBlockPass(MadePass):
    """A pass over dataflow blocks implemented by a Python function; see `dataflowblock_pass`."""

    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        def change(function: BaseFunc) -> BaseFunc:
            return _Blocks(self, mod, ctx).visit_expr(function) if isinstance(function, Function) else function

        return with_functions(mod, change)

    def _block(self, block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        made = self._checked(self._function(block, mod, ctx), DataflowBlock, "a relax.DataflowBlock")
        if made is not block:
            self._check_roles(block, made)
        return made

    def _check_roles(self, block: DataflowBlock, made: DataflowBlock) -> None:
        """Checks that the replacement defines everything that is visible after the block."""
        names = {binding.var.name for binding in made.bindings if not isinstance(binding.var, DataflowVar)}
        for binding in block.bindings:
            if not isinstance(binding.var, DataflowVar) and binding.var.name not in names:
                raise PassFailedError(
                    f"pass {self.info.name} deleted the global-scope Var {binding.var.name} of a dataflow block; "
                    "code after the block may use it"
                )
        known = _declared(made)
        for var in _declared(block):
            if not any(var is other for other in known):
                raise PassFailedError(
                    f"pass {self.info.name} deleted {var.name}, a symbolic Var declared by a MatchCast of a dataflow "
                    "block; code after the block may use it"
                )


def _declared(block: DataflowBlock) -> list[Var]:
    """Returns the symbolic variables that a block declares."""
    return list(defined_in(binding.ty for binding in block.bindings if isinstance(binding, MatchCast)))


class _Blocks(PyExprMutator):
    """Replaces dataflow blocks with the results of a pass."""

    def __init__(self, of: DataflowBlockPass, mod: IRModule, ctx: PassContext) -> None:
        super().__init__(mod)
        self.of, self.mod, self.ctx = of, mod, ctx

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        result = self.of._block(block, self.mod, self.ctx)
        new = {binding.var for binding in result.bindings}
        by_name = {binding.var.name: binding.var for binding in result.bindings}
        # A variable that replaces a visible variable takes its name.
        for binding in block.bindings:
            if binding.var not in new and binding.var.name in by_name:
                self.set_var_remap(binding.var, by_name[binding.var.name])
        for binding in result.bindings:
            self.builder_._bindings[binding.var] = binding.value  # type: ignore[attr-defined]
        return result


function_pass = made_by(FunctionPass, "transform_function")
"""Turns a function `(func, mod, ctx) -> func`, or a class with a method `transform_function`, into a pass."""

dataflowblock_pass = made_by(DataflowBlockPass, "transform_dataflowblock")
"""Turns a function `(block, mod, ctx) -> block`, or a class with a method `transform_dataflowblock`, into a pass over
dataflow blocks."""


def _in_functions(name: str, change: Callable[[Function], Function], func_name: str | None) -> Pass:
    def bind(mod: IRModule, _ctx: PassContext) -> IRModule:
        made = mod.clone()
        names = [func_name] if func_name is not None else [var.name_hint for var in mod.get_global_vars()]
        for each in names:
            function = mod[each]
            if isinstance(function, Function):
                made[each] = change(function)
        return made

    return ModulePass(PassInfo(0, name), bind)


def BindParams(func_name: str, params: Mapping[str | Var, Any]) -> Pass:
    """Binds parameters of a function to values, given as a mapping from parameter names to arrays."""
    return _in_functions("BindParams", lambda function: bind_params(function, params), func_name)


def BindSymbolicVars(binding_map: Mapping[str | Var, Any], func_name: str | None = None) -> Pass:
    """Binds symbolic variables to values."""

    def change(function: Function) -> Function:
        if func_name is not None:
            return bind_symbolic_vars(function, binding_map)
        known = defined_in(param.ty for param in function.params)
        names = {var.name for var in known}
        here = {k: v for k, v in binding_map.items() if (k in names if isinstance(k, str) else k in known)}
        return bind_symbolic_vars(function, here)

    return _in_functions("BindSymbolicVars", change, func_name)


_Legalize = Callable[[BlockBuilder, Call], Expr]


class _Legalized(PyExprMutator):
    """Replaces calls with the results of legalization functions."""

    def __init__(self, mod: IRModule, functions: Mapping[str, _Legalize]) -> None:
        super().__init__(mod)
        self.functions = functions

    def visit_call_(self, call: Call) -> Expr:
        made = super().visit_call_(call)
        if not isinstance(made, Call) or not isinstance(made.op, Op):
            return made
        legalize = self.functions.get(made.op.name)
        if legalize is None:
            return made
        if made.ty is MISSING:
            made = self.builder_.normalize(made)
        return legalize(self.builder_, made)


def LegalizeOps(
    customize_legalize_map: Mapping[str, _Legalize] | None = None,
    skip_ops: Sequence[str] | None = None,
    enable_warning: bool = False,
) -> Pass:
    """Turns calls of operators into calls of PrimFuncs that compute them.

    `customize_legalize_map` maps operator names to functions `(builder, call) -> expr`, which take precedence:

    >>> import passhost
    >>> from passhost import relax, topi
    >>> mod = passhost.script.from_source('''
    ... @I.ir_module
    ... class Module:
    ...     @R.function
    ...     def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    ...         return R.add(x, x)
    ... ''')
    >>> double = lambda builder, call: builder.call_te(topi.multiply, call.args[0], relax.const(2, "float32"))
    >>> made = relax.transform.LegalizeOps({"relax.add": double})(mod)
    >>> [var.name_hint for var in made.get_global_vars()]
    ['main', 'multiply']
    """
    options: dict[str, Any] = {}
    if skip_ops:
        options["skip_ops"] = [getattr(op, "name", op) for op in skip_ops]
    if enable_warning:
        options["enable_warning"] = True
    standard = PluginPass("relax.LegalizeOps", options)
    if not customize_legalize_map:
        return standard
    functions = {getattr(op, "name", op): function for op, function in customize_legalize_map.items()}

    def legalize(mod: IRModule, _ctx: PassContext) -> IRModule:
        mutator = _Legalized(mod, functions)
        for var, function in mod.functions_items():
            if isinstance(function, Function):
                mutator.builder_.update_func(var, mutator.visit_expr(function))
        return standard(mutator.builder_.get())

    return ModulePass(PassInfo(0, "LegalizeOps"), legalize)


_PASSES = TvmNames("relax")


def __getattr__(name: str) -> Any:
    """Returns a plugin pass."""
    return _PASSES.find(name)


def __dir__() -> list[str]:
    """Lists the passes."""
    return sorted({*__all__, *_PASSES.names()})
