"""`T`: TIR functions from decorated Python functions."""

from __future__ import annotations

from typing import Any

from passhost import tirx as _tirx
from passhost.ir.expr import Expr, Var
from passhost.ir.prim import convert
from passhost.script._decorators import Anything, caller, in_module_class, read_function
from passhost.script._written import Written, is_writing

__all__ = ["prim_func"]


def prim_func(func: Any = None, *, check_well_formed: bool = True, **_options: Any) -> Any:
    """Parses a function: `@T.prim_func`, `@T.prim_func(private=True, s_tir=True)`."""
    frame = caller()

    def decorated(func: Any) -> Any:
        return func if in_module_class(frame) else read_function(func, frame, "prim_func", check_well_formed)

    return decorated if func is None else decorated(func)


def _scalar(dtype: str) -> Any:
    def make(value: Any = None, **_options: Any) -> Expr:
        return Var("v", dtype) if value is None else convert(dtype, value)

    make.__name__ = make.__qualname__ = dtype
    return make


_SCALARS = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)


def __getattr__(name: str) -> Any:
    """Returns a data type constructor, or a name used only in the source of functions."""
    if name.startswith(("_", "pytest")):
        raise AttributeError(name)
    if is_writing():
        return Written(f"T.{name}")
    if name in _SCALARS:
        return _scalar(name)
    return getattr(_tirx, name) if name in _tirx.__all__ else Anything(f"T.{name}")
