"""Passes of TIR: those of plugins by TVM's names, and passes over PrimFuncs made of Python functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from passhost import _passhost, _plugins
from passhost._context import PassContext
from passhost._passes import MadePass, PassInfo, made_by
from passhost.error import NameNotFoundError
from passhost.ir.module import IRModule
from passhost.tirx.function import PrimFunc

__all__ = ["PrimFuncPass", "prim_func_pass"]


class PrimFuncPass(MadePass):
    """A pass over PrimFuncs that is a Python function. `prim_func_pass` makes it."""

    def __init__(self, info: PassInfo, function: Callable[[PrimFunc, IRModule, PassContext], PrimFunc | None]) -> None:
        """Of a function of a PrimFunc, its module and the context that returns a PrimFunc, or None to remove it."""
        self._function = function
        super().__init__(info, inspect.getdoc(function) or "")

    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        made = mod
        for name, function in mod.functions_items():
            if not isinstance(function, PrimFunc):
                continue
            result = self._function(function, mod, ctx)
            if result is function:
                continue
            if result is not None and not isinstance(result, PrimFunc):
                found = type(result).__name__
                raise TypeError(f"pass {self._info.name} returned {found}; it must return a tirx.PrimFunc")
            made = mod.clone() if made is mod else made
            if result is None:
                del made[name]
            else:
                made[name] = result
        return made


prim_func_pass = made_by(PrimFuncPass, "transform_function")
"""Makes a pass over PrimFuncs of a function `(func, mod, ctx) -> func`, or of a class with `transform_function`."""


def __getattr__(name: str) -> Any:
    """A pass of a plugin."""
    if name.startswith("_"):
        raise AttributeError(name)
    from passhost.relax.transform import plugin_pass

    try:
        return plugin_pass("tirx", name)
    except NameNotFoundError:
        raise AttributeError(f"no pass tirx.{name}") from None


def __dir__() -> list[str]:
    """Names of the passes."""
    _plugins.ensure_loaded()
    names = [name.removeprefix("tirx.") for name in _passhost.pass_names() if name.startswith("tirx.")]
    return sorted({*__all__, *names})
