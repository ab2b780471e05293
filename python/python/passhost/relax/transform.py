"""Passes of Relax: those of plugins by TVM's names, and those made of Python functions.

>>> from passhost import relax
>>> @relax.transform.function_pass(opt_level=0)
... def twice(func, mod, ctx):
...     return func.with_attr("seen", 1)
>>> twice.info.name
'twice'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from passhost import _passhost, _plugins
from passhost._context import PassContext
from passhost._passes import MadePass, ModulePass, Pass, PassInfo, PluginPass, made_by
from passhost.error import NameNotFoundError
from passhost.ir.expr import Var
from passhost.ir.module import IRModule
from passhost.relax.binding import bind_params, bind_symbolic_vars
from passhost.relax.expr import BindingBlock, DataflowBlock, Function
from passhost.relax.expr_functor import PyExprMutator

__all__ = ["BindParams", "BindSymbolicVars", "DataflowBlockPass", "FunctionPass", "dataflowblock_pass", "function_pass"]


class FunctionPass(MadePass):
    """A pass over the functions of Relax that is a Python function. `function_pass` makes it."""

    def __init__(self, info: PassInfo, function: Callable[[Function, IRModule, PassContext], Function]) -> None:
        """Of a function that takes a function, its module and the context, and returns a function."""
        self._function = function
        super().__init__(info, inspect.getdoc(function) or "")

    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        made = mod
        for name, function in mod.functions_items():
            if not isinstance(function, Function) or function.attrs.get("SkipOptimization"):
                continue
            result = self._function(function, mod, ctx)
            if not isinstance(result, Function):
                found = type(result).__name__
                raise TypeError(f"pass {self._info.name} returned {found}; it must return a relax.Function")
            if result is not function:
                made = mod.clone() if made is mod else made
                made[name] = result
        return made


class DataflowBlockPass(MadePass):
    """A pass over dataflow blocks that is a Python function. `dataflowblock_pass` makes it."""

    def __init__(
        self, info: PassInfo, function: Callable[[DataflowBlock, IRModule, PassContext], DataflowBlock]
    ) -> None:
        """Of a function that takes a dataflow block, its module and the context, and returns a dataflow block."""
        self._function = function
        super().__init__(info, inspect.getdoc(function) or "")

    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        made = mod
        for name, function in mod.functions_items():
            if isinstance(function, Function):
                result = _Blocks(self, mod, ctx).visit_expr(function)
                if result is not function:
                    made = mod.clone() if made is mod else made
                    made[name] = result
        return made

    def _block(self, block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        result = self._function(block, mod, ctx)
        if not isinstance(result, DataflowBlock):
            found = type(result).__name__
            raise TypeError(f"pass {self._info.name} returned {found}; it must return a relax.DataflowBlock")
        return result


class _Blocks(PyExprMutator):
    """Replaces dataflow blocks by what a pass makes of them."""

    def __init__(self, of: DataflowBlockPass, mod: IRModule, ctx: PassContext) -> None:
        super().__init__(mod)
        self.of, self.mod, self.ctx = of, mod, ctx

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        result = self.of._block(block, self.mod, self.ctx)
        new = {binding.var for binding in result.bindings}
        by_name = {binding.var.name: binding.var for binding in result.bindings}
        # What was visible after the block, and is made anew, has its name.
        for binding in block.bindings:
            if binding.var not in new and binding.var.name in by_name:
                self.set_var_remap(binding.var, by_name[binding.var.name])
        for binding in result.bindings:
            self.builder_._bindings[binding.var] = binding.value  # type: ignore[attr-defined]
        return result


function_pass = made_by(FunctionPass, "transform_function")
"""Makes a pass of a function `(func, mod, ctx) -> func`, or of a class with a method `transform_function`."""

dataflowblock_pass = made_by(DataflowBlockPass, "transform_dataflowblock")
"""Makes a pass over dataflow blocks of a function `(block, mod, ctx) -> block`, or of a class with
`transform_dataflowblock`."""


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
    """Gives values to parameters of a function: arrays by the names of parameters."""
    return _in_functions("BindParams", lambda function: bind_params(function, params), func_name)


def BindSymbolicVars(binding_map: Mapping[str | Var, Any], func_name: str | None = None) -> Pass:
    """Gives values to symbolic variables."""

    def change(function: Function) -> Function:
        if func_name is not None:
            return bind_symbolic_vars(function, binding_map)
        from passhost.relax.types import defined_in

        known = defined_in(param.ty for param in function.params)
        names = {var.name for var in known}
        here = {k: v for k, v in binding_map.items() if (k in names if isinstance(k, str) else k in known)}
        return bind_symbolic_vars(function, here)

    return _in_functions("BindSymbolicVars", change, func_name)


def plugin_pass(namespace: str, name: str) -> Callable[..., PluginPass]:
    """What makes a pass of a plugin, with its options in order."""
    _plugins.ensure_loaded()
    facts = _passhost.pass_facts(f"{namespace}.{name}")
    options: Sequence[dict[str, Any]] = facts["options"]
    names = [option["name"] for option in options]

    def make(*args: Any, **kwargs: Any) -> PluginPass:
        if len(args) > len(names):
            raise TypeError(f"{name}() takes {len(names)} arguments, found {len(args)}")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        unknown = [key for key in given if key not in names]
        if unknown:
            raise TypeError(f"{name}() has no option {unknown[0]!r}; there are: {', '.join(names) or 'none'}")
        # None stands for what is not given.
        return PluginPass(facts["name"], {key: value for key, value in given.items() if value is not None})

    make.__name__ = make.__qualname__ = name
    make.__doc__ = facts["doc"]
    return make


def __getattr__(name: str) -> Any:
    """A pass of a plugin."""
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return plugin_pass("relax", name)
    except NameNotFoundError:
        raise AttributeError(f"no pass relax.{name}") from None


def __dir__() -> list[str]:
    """Names of the passes."""
    _plugins.ensure_loaded()
    names = [name.removeprefix("relax.") for name in _passhost.pass_names() if name.startswith("relax.")]
    return sorted({*__all__, *names})
