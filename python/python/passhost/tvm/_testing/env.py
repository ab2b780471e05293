"""Names of `tvm.testing.env`: what a machine has for compiled modules. They are interpreted, so it has nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def __getattr__(name: str) -> Callable[..., bool]:
    """`has_gpu`, `has_llvm` and the like."""
    if not name.startswith("has_"):
        raise AttributeError(name)

    def has(*_args: Any, **_options: Any) -> bool:
        return False

    has.__name__ = has.__qualname__ = name
    return has
