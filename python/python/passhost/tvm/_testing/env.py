"""Names of `tvm.testing.env`: the compilers and devices of the machine. passhost uses none of them, so all are reported
as missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def __getattr__(name: str) -> Callable[..., bool]:
    """Returns a function such as `has_gpu` or `has_llvm`."""
    if not name.startswith("has_"):
        raise AttributeError(name)

    def has(*_args: Any, **_options: Any) -> bool:
        return False

    has.__name__ = has.__qualname__ = name
    return has
