"""Frontends that create Relax modules."""

from __future__ import annotations

from typing import Any

from passhost.ir.module import IRModule

__all__ = ["detach_params"]


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Any]]]:
    """Returns the module without the attribute `params` of its functions, and its values by function."""
    functions: dict[Any, Any] = {}
    params: dict[str, list[Any]] = {}
    for var, function in mod.functions_items():
        if "params" in function.attrs:
            # As in TVM, the values are tensors rather than constants.
            params[var.name_hint] = [getattr(value, "data", value) for value in function.attrs["params"]]
            function = function.without_attr("params")
        functions[var] = function
    return IRModule(functions), params
