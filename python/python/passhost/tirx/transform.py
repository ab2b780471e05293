"""TIR passes: plugin passes under TVM's names, and passes over PrimFuncs made from Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost._context import PassContext
from passhost._pass_info import PassInfo
from passhost._passes import MadePass, Pass, made_by, with_functions
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule
from passhost.passes import TvmNames
from passhost.tirx.function import PrimFunc

__all__ = ["Apply", "Filter", "PrimFuncPass", "prim_func_pass"]


class PrimFuncPass(MadePass):
    """A pass over PrimFuncs implemented by a Python function; see `prim_func_pass`."""

    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        def change(function: BaseFunc) -> BaseFunc | None:
            if not isinstance(function, PrimFunc):
                return function
            result = self._function(function, mod, ctx)
            return None if result is None else self._checked(result, PrimFunc, "a tirx.PrimFunc")

        return with_functions(mod, change)


prim_func_pass = made_by(PrimFuncPass, "transform_function")
"""Turns a function `(func, mod, ctx) -> func`, or a class with `transform_function`, into a pass over PrimFuncs. The
function returns None to remove a PrimFunc.
"""


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> Pass:
    """Returns a pass that replaces each PrimFunc with the result of a function."""
    return PrimFuncPass(PassInfo(0, "Apply"), lambda func, mod, ctx: ftransform(func))


def Filter(fcond: Callable[[PrimFunc], bool]) -> Pass:
    """Returns a pass that keeps the PrimFuncs for which a function returns true."""
    return PrimFuncPass(PassInfo(0, "Filter"), lambda func, mod, ctx: func if fcond(func) else None)


_PASSES = TvmNames("tirx")


def __getattr__(name: str) -> Any:
    """Returns a plugin pass."""
    return _PASSES.find(name)


def __dir__() -> list[str]:
    """Lists the passes."""
    return sorted({*__all__, *_PASSES.names()})
