"""Scalar functions shared by TIR and tensor expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost.ir.expr import Expr
from passhost.ir.prim import intrinsic

FUNCTIONS = (
    *(
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "ceil",
        "clz",
        "copysign",
        "cos",
        "cosh",
        "erf",
    ),
    *(
        "exp",
        "exp10",
        "exp2",
        "floor",
        "fmod",
        "hypot",
        "isfinite",
        "isinf",
        "isnan",
        "ldexp",
        "likely",
        "log",
        "log10",
    ),
    *(
        "log1p",
        "log2",
        "nearbyint",
        "nextafter",
        "popcount",
        "pow",
        "power",
        "round",
        "rsqrt",
        "sigmoid",
        "sin",
        "sinh",
    ),
    *("sqrt", "tan", "tanh", "trunc"),
)
"""The names of the functions."""


def function(name: str) -> Callable[..., Expr]:
    """Returns the function with a name in `FUNCTIONS`."""

    def call(*args: Any, span: Any = None) -> Expr:
        word = "pow" if name == "power" else name
        return intrinsic(word, *args, dtype="bool" if name.startswith("is") else None)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`{name}` of a scalar."
    return call
