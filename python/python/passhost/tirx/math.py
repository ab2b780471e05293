"""Scalar functions shared by TIR and tensor expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost import _passhost
from passhost.ir.expr import Expr
from passhost.ir.prim import intrinsic

_KINDS = dict(_passhost.scalar_functions())

FUNCTIONS = frozenset({"power", *_KINDS})
"""The names of the functions."""

FLOAT_FUNCTIONS = frozenset(name for name, kind in _KINDS.items() if kind == "float")
"""The names of functions that compute a float from one float."""

ROUNDINGS = frozenset(name for name, kind in _KINDS.items() if kind == "rounding")
"""The names of functions that round a float to an integer."""


def function(name: str) -> Callable[..., Expr]:
    """Returns the function named `name`, one of `FUNCTIONS`."""

    def call(*args: Any, span: Any = None) -> Expr:
        word = "pow" if name == "power" else name
        return intrinsic(word, *args, dtype="bool" if name.startswith("is") else None)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`{name}` of a scalar."
    return call
