"""`I`: modules from decorated classes."""

from __future__ import annotations

from typing import Any

from passhost.ir.module import IRModule
from passhost.script._decorators import Anything, caller, read

__all__ = ["ir_module"]


def ir_module(mod: Any = None, *, check_well_formed: bool = True, **_options: Any) -> Any:
    """Parses a class as a module: `@I.ir_module`, `@I.ir_module(check_well_formed=False)`."""
    frame = caller()

    def decorated(cls: Any) -> IRModule:
        if not isinstance(cls, type):
            raise TypeError(f"I.ir_module decorates a class, not {cls!r}")
        return read(cls, frame, "ir_module", check_well_formed)

    return decorated if mod is None else decorated(mod)


def __getattr__(name: str) -> Any:
    if name.startswith(("_", "pytest")):
        raise AttributeError(name)
    return Anything(f"I.{name}")
