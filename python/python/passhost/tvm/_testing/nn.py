"""Names of `tvm.relax.testing.nn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost import relax

__all__ = ["Parameter", "Placeholder", "emit", "emit_te"]


def emit(expr: relax.Expr, name_hint: str = "") -> relax.Var:
    """Binds a value in the function being built."""
    return _builder().emit(expr, name_hint)


def emit_te(func: Callable[..., Any], *args: Any, **kwargs: Any) -> relax.Var:
    """Binds a call of a function that computes tensor expressions, in the function being built."""
    return _builder().emit_te(func, *args, **kwargs)


def _builder() -> relax.BlockBuilder:
    builder = relax.BlockBuilder.current()
    if builder is None:
        raise RuntimeError("no function is being built; use this within `with bb.function(…)`")
    return builder


class Placeholder(relax.Var):
    """A parameter that is an input of a model."""

    __slots__ = ()

    def __init__(self, shape: list[Any] | tuple[Any, ...], dtype: str = "float32", name: str = "data") -> None:
        """Creates a placeholder from a shape and a data type; the name is made unique in the function being built."""
        if not isinstance(shape, list | tuple):
            raise TypeError(f"the shape of a {type(self).__name__} must be a list or tuple, not {type(shape).__name__}")
        builder = relax.BlockBuilder.current()
        super().__init__(name if builder is None else builder.get_unique_name(name), relax.TensorType(shape, dtype))


class Parameter(Placeholder):
    """A parameter that is a weight of a model."""

    __slots__ = ()

    def __init__(self, shape: list[Any] | tuple[Any, ...], dtype: str = "float32", name: str = "param") -> None:
        """Creates a parameter from a shape and a data type."""
        super().__init__(shape, dtype, name)
